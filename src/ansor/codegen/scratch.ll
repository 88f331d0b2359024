; The runtime of compiled kernels: scratch memory (follows runtime.ll).
;
; Free blocks by size class (2^12 ... 2^30 bytes), 64 of each. A block is preceded by 64
; bytes that hold its base address and its class. A thread starts its search at a slot
; that depends on its stack, so it tends to find the block it used before.
@rt.blocks = internal global [19 x [64 x ptr]] zeroinitializer, <<GROUP>>align 128
@rt.colour = internal global i64 0, <<GROUP>>align 128

declare i32 @posix_memalign(ptr, i64, i64)
declare i32 @madvise(ptr, i64, i32)
declare void @free(ptr)
declare void @abort() noreturn
declare i64 @llvm.ctlz.i64(i64, i1)

define internal ptr @rt.allocate(i64 %class) noinline nounwind <<COMDAT_USE>>{
entry:
  %slot = alloca ptr, align 8
  %size = shl i64 1, %class
  %room = add i64 %size, 4160
  %huge = icmp ugt i64 %class, 20
  %align = select i1 %huge, i64 2097152, i64 64
  %error = call i32 @posix_memalign(ptr %slot, i64 %align, i64 %room)
  %fine = icmp eq i32 %error, 0
  br i1 %fine, label %got, label %fail
fail:
  call void @abort()
  unreachable
got:
  %base = load ptr, ptr %slot, align 8
  br i1 %huge, label %advise, label %place
advise: ; MADV_HUGEPAGE; a refusal does not matter
  %a = call i32 @madvise(ptr %base, i64 %room, i32 14)
  br label %place
place: ; different offsets in a page, so that blocks do not compete for cache sets
  %n = atomicrmw add ptr @rt.colour, i64 320 monotonic, align 128
  %colour = and i64 %n, 4032
  %offset = add i64 %colour, 64
  %block = getelementptr i8, ptr %base, i64 %offset
  %head = getelementptr i8, ptr %block, i64 -64
  store ptr %base, ptr %head, align 8
  %tag = getelementptr i8, ptr %block, i64 -56
  store i64 %class, ptr %tag, align 8
  ret ptr %block
}

; The first slot to look at, from 0 to 63.
define internal i64 @rt.home() nounwind <<COMDAT_USE>>{
  %here = alloca i64, align 8
  %address = ptrtoint ptr %here to i64
  %stack = lshr i64 %address, 23
  %home = and i64 %stack, 63
  ret i64 %home
}

; A block of at least `bytes`, aligned to 64. Aborts if there is no memory.
define <<API>> noalias nonnull ptr @ansor_scratch_acquire(i64 %bytes) noinline nounwind <<COMDAT_USE>>{
entry:
  %most = call i64 @llvm.smax.i64(i64 %bytes, i64 4096)
  %less = sub i64 %most, 1
  %zeros = call i64 @llvm.ctlz.i64(i64 %less, i1 false)
  %class = sub i64 64, %zeros
  %cached = icmp ule i64 %class, 30
  br i1 %cached, label %search, label %allocate
search:
  %row = sub i64 %class, 12
  %home = call i64 @rt.home()
  br label %look
look:
  %i = phi i64 [ 0, %search ], [ %i.next, %next ]
  %shifted = add i64 %home, %i
  %at = and i64 %shifted, 63
  %slot = getelementptr [19 x [64 x ptr]], ptr @rt.blocks, i64 0, i64 %row, i64 %at
  %peek = load atomic ptr, ptr %slot monotonic, align 8
  %empty = icmp eq ptr %peek, null
  br i1 %empty, label %next, label %take
take:
  %block = atomicrmw xchg ptr %slot, ptr null acquire, align 8
  %missed = icmp eq ptr %block, null
  br i1 %missed, label %next, label %found
found:
  ret ptr %block
next:
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, 64
  br i1 %more, label %look, label %allocate
allocate:
  %new = call ptr @rt.allocate(i64 %class)
  ret ptr %new
}

; Give a block back; it is kept for the next `ansor_scratch_acquire`.
define <<API>> void @ansor_scratch_release(ptr %block) noinline nounwind <<COMDAT_USE>>{
entry:
  %tag = getelementptr i8, ptr %block, i64 -56
  %class = load i64, ptr %tag, align 8
  %cached = icmp ule i64 %class, 30
  br i1 %cached, label %search, label %drop
search:
  %row = sub i64 %class, 12
  %home = call i64 @rt.home()
  br label %look
look:
  %i = phi i64 [ 0, %search ], [ %i.next, %next ]
  %shifted = add i64 %home, %i
  %at = and i64 %shifted, 63
  %slot = getelementptr [19 x [64 x ptr]], ptr @rt.blocks, i64 0, i64 %row, i64 %at
  %peek = load atomic ptr, ptr %slot monotonic, align 8
  %empty = icmp eq ptr %peek, null
  br i1 %empty, label %put, label %next
put:
  %pair = cmpxchg ptr %slot, ptr null, ptr %block release monotonic, align 8
  %kept = extractvalue { ptr, i1 } %pair, 1
  br i1 %kept, label %done, label %next
next:
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, 64
  br i1 %more, label %look, label %drop
drop:
  %head = getelementptr i8, ptr %block, i64 -64
  %base = load ptr, ptr %head, align 8
  call void @free(ptr %base)
  br label %done
done:
  ret void
}
