"""Hand-made LLVM modules for the tests of the back end."""

ADD = """
define void @add(ptr noalias %a, ptr noalias %b, ptr noalias %c) {
start:
  br label %loop
loop:
  %i = phi i64 [ 0, %start ], [ %next, %loop ]
  %pa = getelementptr float, ptr %a, i64 %i
  %pb = getelementptr float, ptr %b, i64 %i
  %pc = getelementptr float, ptr %c, i64 %i
  %x = load float, ptr %pa, align 4
  %y = load float, ptr %pb, align 4
  %z = fadd float %x, %y
  store float %z, ptr %pc, align 4
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, 12
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""  # c[12] = a[12] + b[12]

COPY16 = """
define void @copy16(ptr %a, ptr %b) {
  %x = load <4 x i16>, ptr %a, align 2
  store <4 x i16> %x, ptr %b, align 2
  ret void
}
"""  # b[4] = a[4], of a 16-bit type

TWO = """
define void @two(ptr %a, ptr %b, ptr %c) {
  %x = load float, ptr %a
  %y = fneg float %x
  %z = fadd float %x, %x
  store float %y, ptr %b
  store float %z, ptr %c
  ret void
}
"""  # b = -a, c = a + a, without axes

PACKED = """
define void @rotate(ptr %in, ptr %packed) {
  %x = load <4 x float>, ptr %in, align 4
  %y = shufflevector <4 x float> %x, <4 x float> poison, <4 x i32> <i32 1, i32 2, i32 3, i32 0>
  store <4 x float> %y, ptr %packed, align 64
  ret void
}
define void @sum(ptr %a, ptr %w, ptr %c) {
  %x = load <4 x float>, ptr %a, align 4
  %y = load <4 x float>, ptr %w, align 64
  %z = shufflevector <4 x float> %y, <4 x float> poison, <4 x i32> <i32 3, i32 0, i32 1, i32 2>
  %s = fadd <4 x float> %x, %z
  store <4 x float> %s, ptr %c, align 4
  ret void
}
"""  # c[4] = a[4] + w[4], with w rotated ahead of time  # noqa: E501

COUNT = """
declare void @ansor_parallel_for(ptr, ptr, i64)

define internal void @body(ptr %hits, i64 %begin, i64 %end) {
start:
  br label %loop
loop:
  %i = phi i64 [ %begin, %start ], [ %next, %loop ]
  %p = getelementptr i32, ptr %hits, i64 %i
  %old = load i32, ptr %p
  %new = add i32 %old, 1
  store i32 %new, ptr %p
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}

define void @count(ptr %hits, i64 %n) {
  call void @ansor_parallel_for(ptr @body, ptr %hits, i64 %n)
  ret void
}

define void @count_often(ptr %hits, i64 %n, i64 %times) {
start:
  br label %loop
loop:
  %i = phi i64 [ 0, %start ], [ %next, %loop ]
  call void @ansor_parallel_for(ptr @body, ptr %hits, i64 %n)
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %times
  br i1 %more, label %loop, label %done
done:
  ret void
}

%row = type { ptr, i64 }

define internal void @outer(ptr %context, i64 %begin, i64 %end) {
start:
  %hits = load ptr, ptr %context
  %size.at = getelementptr %row, ptr %context, i32 0, i32 1
  %size = load i64, ptr %size.at
  br label %loop
loop:
  %i = phi i64 [ %begin, %start ], [ %next, %loop ]
  %at = mul i64 %i, %size
  %p = getelementptr i32, ptr %hits, i64 %at
  call void @ansor_parallel_for(ptr @body, ptr %p, i64 %size)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}

define void @count_nested(ptr %hits, i64 %rows, i64 %size) {
  %context = alloca %row
  store ptr %hits, ptr %context
  %size.at = getelementptr %row, ptr %context, i32 0, i32 1
  store i64 %size, ptr %size.at
  call void @ansor_parallel_for(ptr @outer, ptr %context, i64 %rows)
  ret void
}

define internal void @nothing(ptr %context, i64 %begin, i64 %end) {
  ret void
}

define void @empty_regions(i64 %times) {
start:
  br label %loop
loop:
  %i = phi i64 [ 0, %start ], [ %next, %loop ]
  call void @ansor_parallel_for(ptr @nothing, ptr null, i64 64)
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %times
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""  # hits[i] += 1 for each i of [0, n), in parallel

DOUBLE = """
declare void @ansor_parallel_for(ptr, ptr, i64)
%io = type { ptr, ptr }

define internal void @body(ptr %context, i64 %begin, i64 %end) {
start:
  %a = load ptr, ptr %context
  %c.at = getelementptr %io, ptr %context, i32 0, i32 1
  %c = load ptr, ptr %c.at
  br label %loop
loop:
  %i = phi i64 [ %begin, %start ], [ %next, %loop ]
  %p = getelementptr float, ptr %a, i64 %i
  %q = getelementptr float, ptr %c, i64 %i
  %x = load float, ptr %p
  %y = fadd float %x, %x
  store float %y, ptr %q
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}

define void @NAME(ptr %a, ptr %c) {
  %context = alloca %io
  store ptr %a, ptr %context
  %c.at = getelementptr %io, ptr %context, i32 0, i32 1
  store ptr %c, ptr %c.at
  call void @ansor_parallel_for(ptr @body, ptr %context, i64 1000)
  ret void
}
"""  # c[1000] = a[1000] + a[1000], in parallel
