; What kernels call of the runtime, for checking them.
;
; Scratch memory is slower than that of the runtime, but what is read or written outside
; of a block is a fault, or found when it is released.
;
;   header | guard | slack, block | guard      a block ends at a guard,
;   header | guard | block, slack | guard      or begins at one (@checked.start)
;
; Blocks are filled with NaNs when they are acquired. Released ones are kept, at most
; 64, until @checked_drain. Sizes are multiples of 64, so the slack is whole words.
%header = type { i64, i64 } ; bytes of the block, bytes of its pages

@checked.free = internal global [64 x ptr] zeroinitializer, align 64 ; pages
@checked.damage = internal global i64 0, align 8 ; words of slack that were written
@checked.start = internal global i32 0, align 4
@checked.loop = internal global ptr null, align 8 ; what runs parallel loops

declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @munmap(ptr, i64)
declare i32 @mprotect(ptr, i64, i32)
declare void @_exit(i32) noreturn

define internal void @checked.fail() noinline nounwind noreturn {
  call void @_exit(i32 <<STATUS>>)
  unreachable
}

define internal ptr @checked.header(ptr %pages) nounwind {
  %header = getelementptr i8, ptr %pages, i64 -<<AHEAD>>
  ret ptr %header
}

; Pages between guards, and a header.
define internal ptr @checked.map(i64 %room) noinline nounwind {
entry:
  %length = add i64 %room, <<AROUND>>
  %base = call ptr @mmap(ptr null, i64 %length, i32 0, i32 34, i32 -1, i64 0)
  %failed = icmp eq ptr %base, inttoptr (i64 -1 to ptr)
  br i1 %failed, label %fail, label %open
open:
  %pages = getelementptr i8, ptr %base, i64 <<AHEAD>>
  %a = call i32 @mprotect(ptr %base, i64 <<PAGE>>, i32 3)
  %b = call i32 @mprotect(ptr %pages, i64 %room, i32 3)
  %error = or i32 %a, %b
  %fine = icmp eq i32 %error, 0
  br i1 %fine, label %done, label %fail
done:
  %place = getelementptr %header, ptr %base, i64 0, i32 1
  store i64 %room, ptr %place, align 8
  ret ptr %pages
fail:
  call void @checked.fail()
  unreachable
}

define internal void @checked.unmap(ptr %pages) nounwind {
  %base = call ptr @checked.header(ptr %pages)
  %place = getelementptr %header, ptr %base, i64 0, i32 1
  %room = load i64, ptr %place, align 8
  %length = add i64 %room, <<AROUND>>
  %error = call i32 @munmap(ptr %base, i64 %length)
  ret void
}

; Keep pages for later, or give them back where no slot is free.
define internal void @checked.keep(ptr %pages) nounwind {
entry:
  br label %look
look:
  %i = phi i64 [ 0, %entry ], [ %next, %taken ]
  %slot = getelementptr [64 x ptr], ptr @checked.free, i64 0, i64 %i
  %pair = cmpxchg ptr %slot, ptr null, ptr %pages acq_rel monotonic, align 8
  %kept = extractvalue { ptr, i1 } %pair, 1
  br i1 %kept, label %done, label %taken
taken:
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, 64
  br i1 %more, label %look, label %drop
drop:
  call void @checked.unmap(ptr %pages)
  br label %done
done:
  ret void
}

; Pages of this length that were released, or null.
define internal ptr @checked.find(i64 %room) nounwind {
entry:
  br label %look
look:
  %i = phi i64 [ 0, %entry ], [ %next, %on ]
  %slot = getelementptr [64 x ptr], ptr @checked.free, i64 0, i64 %i
  %pages = atomicrmw xchg ptr %slot, ptr null acq_rel, align 8
  %none = icmp eq ptr %pages, null
  br i1 %none, label %on, label %compare
compare:
  %header = call ptr @checked.header(ptr %pages)
  %place = getelementptr %header, ptr %header, i64 0, i32 1
  %have = load i64, ptr %place, align 8
  %fits = icmp eq i64 %have, %room
  br i1 %fits, label %found, label %back
back:
  call void @checked.keep(ptr %pages)
  br label %on
on:
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, 64
  br i1 %more, label %look, label %missing
found:
  ret ptr %pages
missing:
  ret ptr null
}

define internal void @checked.fill(ptr %from, i64 %bytes) nounwind {
entry:
  br label %loop
loop:
  %at = phi i64 [ 0, %entry ], [ %next, %loop ]
  %word = getelementptr i8, ptr %from, i64 %at
  store i64 <<WORD>>, ptr %word, align 8
  %next = add i64 %at, 8
  %more = icmp ult i64 %next, %bytes
  br i1 %more, label %loop, label %done
done:
  ret void
}

; Count the words from `from` up to `to` that are not as they were filled.
define internal void @checked.look(ptr %from, ptr %to) nounwind {
entry:
  br label %loop
loop:
  %word = phi ptr [ %from, %entry ], [ %next, %read ]
  %end = icmp uge ptr %word, %to
  br i1 %end, label %done, label %read
read:
  %value = load i64, ptr %word, align 8
  %changed = icmp ne i64 %value, <<WORD>>
  %count = zext i1 %changed to i64
  %old = atomicrmw add ptr @checked.damage, i64 %count monotonic, align 8
  %next = getelementptr i8, ptr %word, i64 8
  br label %loop
done:
  ret void
}

define ptr @checked_acquire(i64 %bytes) noinline nounwind {
entry:
  %some = call i64 @llvm.smax.i64(i64 %bytes, i64 1)
  %wide = add i64 %some, 63
  %size = and i64 %wide, -64
  %last = add i64 %size, <<LAST>>
  %room = and i64 %last, -<<PAGE>>
  %old = call ptr @checked.find(i64 %room)
  %none = icmp eq ptr %old, null
  br i1 %none, label %make, label %use
make:
  %new = call ptr @checked.map(i64 %room)
  br label %use
use:
  %pages = phi ptr [ %old, %entry ], [ %new, %make ]
  %header = call ptr @checked.header(ptr %pages)
  store i64 %size, ptr %header, align 8
  call void @checked.fill(ptr %pages, i64 %room)
  %mode = load i32, ptr @checked.start, align 4
  %at.end = icmp eq i32 %mode, 0
  %rest = sub i64 %room, %size
  %offset = select i1 %at.end, i64 %rest, i64 0
  %block = getelementptr i8, ptr %pages, i64 %offset
  ret ptr %block
}

define void @checked_release(ptr %block) noinline nounwind {
  %address = ptrtoint ptr %block to i64
  %down = and i64 %address, -<<PAGE>>
  %pages = inttoptr i64 %down to ptr
  %header = call ptr @checked.header(ptr %pages)
  %size = load i64, ptr %header, align 8
  %place = getelementptr %header, ptr %header, i64 0, i32 1
  %room = load i64, ptr %place, align 8
  %behind = getelementptr i8, ptr %block, i64 %size
  %limit = getelementptr i8, ptr %pages, i64 %room
  call void @checked.look(ptr %pages, ptr %block)
  call void @checked.look(ptr %behind, ptr %limit)
  call void @checked.keep(ptr %pages)
  ret void
}

; Leave NaNs on the stack of this thread, where the next call finds them. Called in
; parallel, too: body(context, begin, end).
define void @checked_dirty(ptr %context, i64 %begin, i64 %end) noinline nounwind {
entry:
  %stack = alloca [<<STACK>> x i8], align 64
  br label %loop
loop:
  %at = phi i64 [ 0, %entry ], [ %next, %loop ]
  %word = getelementptr i8, ptr %stack, i64 %at
  store volatile i64 <<WORD>>, ptr %word, align 8
  %next = add i64 %at, 8
  %more = icmp ult i64 %next, <<STACK>>
  br i1 %more, label %loop, label %done
done:
  ret void
}

define void @checked_parallel(ptr %body, ptr %context, i64 %n) noinline nounwind {
  %loop = load ptr, ptr @checked.loop, align 8
  call void %loop(ptr %body, ptr %context, i64 %n)
  ret void
}

; Let this function run parallel loops from now on.
define void @checked_attach(ptr %loop) nounwind {
  store ptr %loop, ptr @checked.loop, align 8
  ret void
}

; Where blocks lie from now on: they end at a guard (0) or begin at one (1).
define void @checked_place(i32 %start) nounwind {
  store i32 %start, ptr @checked.start, align 4
  ret void
}

; Give all memory back; returns the words of slack written since the last time.
define i64 @checked_drain() noinline nounwind {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %on ]
  %slot = getelementptr [64 x ptr], ptr @checked.free, i64 0, i64 %i
  %pages = atomicrmw xchg ptr %slot, ptr null acq_rel, align 8
  %none = icmp eq ptr %pages, null
  br i1 %none, label %on, label %drop
drop:
  call void @checked.unmap(ptr %pages)
  br label %on
on:
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, 64
  br i1 %more, label %loop, label %done
done:
  %damage = atomicrmw xchg ptr @checked.damage, i64 0 acq_rel, align 8
  ret i64 %damage
}

; libc's, for code of other origin: it would go on with no memory.
define ptr @checked_malloc(i64 %bytes) noinline nounwind {
entry:
  %block = call ptr @malloc(i64 %bytes)
  %failed = icmp eq ptr %block, null
  br i1 %failed, label %fail, label %done
fail:
  call void @checked.fail()
  unreachable
done:
  ret ptr %block
}

declare ptr @malloc(i64)
declare i64 @llvm.smax.i64(i64, i64)
