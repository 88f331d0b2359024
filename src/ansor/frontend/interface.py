"""How C programs see an exported model: header, example, manifest."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from ansor.codegen.export import C_TYPES
from ansor.frontend.executor import Executable
from ansor.frontend.graph import Value
from ansor.measure.identity import versions

VERSION = 1  # of the manifest


def header(exe: Executable, name: str) -> str:
    """C99 declarations."""
    guard = f"ANSOR_MODEL_{name.upper()}_H"
    upper = name.upper()
    return f"""#ifndef {guard}
#define {guard}

/* Made by ansor for {exe.target.cpu} ({exe.target.triple}).
   Link with lib{name}.a or lib{name}.so, -lpthread and -lm. */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

#define {upper}_INPUTS {len(exe.inputs)}
#define {upper}_OUTPUTS {len(exe.outputs)}

/* inputs:
{_lines(exe.inputs)}
   outputs:
{_lines(exe.outputs)}
   Arrays are dense, row-major, and aligned to their elements; outputs overlap nothing.
   float16 and bfloat16 are passed as their bits. The workspace has at least
   {name}_workspace_size() bytes, is aligned to 64, and belongs to one call at a time;
   with a workspace for each, calls may run at the same time.
   Returns 0; 1, and does nothing, if the workspace is null or not aligned. */
int {name}_run(const void *const *inputs, void *const *outputs, void *workspace);

size_t {name}_workspace_size(void);

/* Threads that kernels may use; all CPUs unless set. */
void ansor_set_threads(int32_t threads);
int32_t ansor_get_threads(void);

#ifdef __cplusplus
}}
#endif

#endif
"""


def _lines(values: Sequence[Value]) -> str:
    if not values:
        return "     none"
    return "\n".join(f"     {n}  {_describe(x)}" for n, x in enumerate(values))


def _describe(value: Value) -> str:
    shape = "".join(f"[{extent}]" for extent in value.shape)
    safe = value.name.replace("*/", "* /").replace("\n", " ").replace("\\", "/")
    return f"{C_TYPES[value.dtype]} {shape or 'scalar'}: {safe}"


def example(exe: Executable, name: str) -> str:
    """A program that runs the model on files of raw elements."""
    files = [f"in{n}.bin" for n in range(len(exe.inputs))]
    files += [f"out{n}.bin" for n in range(len(exe.outputs))]
    words = {
        "FILES": " ".join(files),
        "NAME": name,
        "UPPER": name.upper(),
        "INPUTS": _sizes(exe.inputs),
        "OUTPUTS": _sizes(exe.outputs),
    }
    text = _EXAMPLE
    for word, value in words.items():
        text = text.replace(f"<<{word}>>", value)
    return text


_EXAMPLE = """/* Runs the model once: files with the raw elements of its inputs, then
   files for its outputs. Without arguments, on zeros.

     cc -O2 main.c lib<<NAME>>.a -lpthread -lm -o main
     ./main <<FILES>> */

#define _POSIX_C_SOURCE 200809L
#include "<<NAME>>.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const size_t input_bytes[] = {<<INPUTS>>};
static const size_t output_bytes[] = {<<OUTPUTS>>};

static void *block(size_t bytes) {
  void *found = NULL;
  if (posix_memalign(&found, 64, bytes ? bytes : 64)) exit(2);
  memset(found, 0, bytes);
  return found;
}

static void transfer(const char *path, void *data, size_t bytes, int is_input) {
  FILE *file = fopen(path, is_input ? "rb" : "wb");
  size_t done = 0;
  if (file && is_input) done = fread(data, 1, bytes, file);
  if (file && !is_input) done = fwrite(data, 1, bytes, file);
  if (!file || done != bytes || fclose(file)) {
    fprintf(stderr, "%s: expected %zu bytes\\n", path, bytes);
    exit(2);
  }
}

int main(int argc, char **argv) {
  const void *inputs[<<UPPER>>_INPUTS + 1];
  void *outputs[<<UPPER>>_OUTPUTS + 1];
  void *workspace = block(<<NAME>>_workspace_size());
  struct timespec start, end;
  int n;
  if (argc != 1 && argc != 1 + <<UPPER>>_INPUTS + <<UPPER>>_OUTPUTS) {
    fprintf(stderr, "usage: %s inputs... outputs...\\n", argv[0]);
    return 2;
  }
  for (n = 0; n < <<UPPER>>_INPUTS; n++) {
    void *data = block(input_bytes[n]);
    if (argc > 1) transfer(argv[1 + n], data, input_bytes[n], 1);
    inputs[n] = data;
  }
  for (n = 0; n < <<UPPER>>_OUTPUTS; n++) outputs[n] = block(output_bytes[n]);
  clock_gettime(CLOCK_MONOTONIC, &start);
  if (<<NAME>>_run(inputs, outputs, workspace)) {
    fprintf(stderr, "the workspace is not aligned\\n");
    return 1;
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  printf("%.3f ms\\n", (end.tv_sec - start.tv_sec) * 1e3 +
                          (end.tv_nsec - start.tv_nsec) * 1e-6);
  for (n = 0; argc > 1 && n < <<UPPER>>_OUTPUTS; n++)
    transfer(argv[1 + <<UPPER>>_INPUTS + n], outputs[n], output_bytes[n], 0);
  return 0;
}
"""


def _sizes(values: Sequence[Value]) -> str:
    return ", ".join(str(x.bytes) for x in values) or "0"


def manifest(exe: Executable, name: str, sums: Mapping[str, str]) -> str:
    """Facts about an exported model, as JSON; `sums` are SHA-256 of its files."""
    kernels = {step.unit.symbol: step for step in exe.steps}
    facts = {
        "version": VERSION,
        "name": name,
        "model": exe.name,
        "target": {
            "triple": exe.target.triple,
            "cpu": exe.target.cpu,
            "features": exe.target.features,
            "cores": exe.target.cores,
        },
        "inputs": [_facts(x) for x in exe.inputs],
        "outputs": [_facts(x) for x in exe.outputs],
        "workspace_bytes": exe.memory.arena,
        "weights_bytes": exe.memory.constants,
        "steps": [
            {
                "kernel": step.unit.symbol,
                "operators": [node.op for node in step.subgraph.nodes],
            }
            for step in exe.steps
        ],
        "kernels": {
            symbol: {
                "task": step.subgraph.task.key,
                "seconds": step.unit.seconds,
                "program": step.unit.program,
            }
            for symbol, step in kernels.items()
        },
        "versions": {key: versions()[key] for key in ("ansor", "llvm")},
        "sha256": dict(sums),
    }
    return json.dumps(facts, indent=2) + "\n"


def _facts(value: Value) -> dict[str, object]:
    return {
        "name": value.name,
        "dtype": value.dtype,
        "shape": list(value.shape),
        "bytes": value.bytes,
    }
