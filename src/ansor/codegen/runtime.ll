; The runtime of compiled kernels: the thread pool (scratch.ll is the other half).
;
; Linux, 64 bits. `runtime.py` fills in the words between << and >>:
;   API     linkage of the entry points       FUTEX  number of the system call
;   COMDAT, COMDAT_USE, GROUP  one group, of which a linker keeps one copy
;   PAUSE, PAUSE_DECLARE       one step of a spin loop
;
; Protocol of a parallel region. One caller owns the pool (`lock`); whoever finds it
; taken, including a nested call, runs its loop alone. The owner cuts [0, n) into one
; range per thread, opens the gate, and bumps the epoch. Every thread that passes the
; gate claims pieces, of its own range first, then of the others. The owner works too,
; closes the gate when nothing is left to claim, and waits for those inside. So a
; thread that sleeps, or does not exist, only costs speed, never the result.
;
; gate: CLOSED (1 << 30) | WAITED (1 << 29, the owner sleeps on it) | threads inside.
; Nobody enters a closed gate, so after closing it the count only falls. Entering
; acquires what the owner wrote before opening; leaving releases what the body wrote.
;
; Sleeping workers count themselves in `sleepers` before a last look at the epoch; the
; owner bumps the epoch before it looks at `sleepers`. Both are sequentially consistent,
; so one of the two sees the other, and the futex compares the epoch once more.

<<COMDAT>>

@rt.owner    = internal global i64 0, <<GROUP>>align 128   ; pid * 2 + (1 while adopting)
@rt.lock     = internal global i32 0, <<GROUP>>align 128
@rt.workers  = internal global i32 0, <<GROUP>>align 4     ; created, under the lock
@rt.refused  = internal global i32 0, <<GROUP>>align 4     ; thread creation failed
@rt.limit    = internal global i32 0, <<GROUP>>align 128   ; threads, with the caller
@rt.epoch    = internal global i32 0, <<GROUP>>align 128
@rt.sleepers = internal global i32 0, <<GROUP>>align 4
@rt.gate     = internal global i32 1073741824, <<GROUP>>align 128

; What runs; written by the owner while the gate is closed and empty.
@rt.body     = internal global ptr null, <<GROUP>>align 128
@rt.context  = internal global ptr null, <<GROUP>>align 8
@rt.count    = internal global i64 0, <<GROUP>>align 8     ; ranges
@rt.admitted = internal global i64 0, <<GROUP>>align 8     ; the limit of this region
@rt.ranges   = internal global [256 x [16 x i64]] zeroinitializer, <<GROUP>>align 128

declare i32 @getpid()
declare i64 @syscall(i64, ...)
declare i64 @sysconf(i32)
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @clock_gettime(i32, ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i64 @llvm.ctpop.i64(i64)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
<<PAUSE_DECLARE>>

; ---------------------------------------------------------------- waiting

; Sleep while *word == value; may return early.
define internal void @rt.sleep(ptr %word, i32 %value) noinline nounwind <<COMDAT_USE>>{
  %r = call i64 (i64, ...) @syscall(i64 <<FUTEX>>, ptr %word, i32 128, i32 %value, ptr null, ptr null, i32 0)
  ret void
}

; Wake up to `count` threads that sleep on `word`.
define internal void @rt.wake(ptr %word, i32 %count) noinline nounwind <<COMDAT_USE>>{
  %r = call i64 (i64, ...) @syscall(i64 <<FUTEX>>, ptr %word, i32 129, i32 %count, ptr null, ptr null, i32 0)
  ret void
}

define internal i64 @rt.nanoseconds() nounwind <<COMDAT_USE>>{
  %time = alloca [2 x i64], align 8
  %r = call i32 @clock_gettime(i32 1, ptr %time)
  %s = load i64, ptr %time, align 8
  %part = getelementptr i64, ptr %time, i64 1
  %ns = load i64, ptr %part, align 8
  %whole = mul i64 %s, 1000000000
  %sum = add i64 %whole, %ns
  ret i64 %sum
}

; Spin until *word != value (true) or 40 microseconds have passed (false).
define internal i1 @rt.spin(ptr %word, i32 %value) noinline nounwind <<COMDAT_USE>>{
entry:
  %start = call i64 @rt.nanoseconds()
  br label %burst
burst:
  br label %look
look:
  %i = phi i64 [ 0, %burst ], [ %i.next, %again ]
  %now = load atomic i32, ptr %word acquire, align 4
  %same = icmp eq i32 %now, %value
  br i1 %same, label %again, label %changed
again:
  <<PAUSE>>
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, 32
  br i1 %more, label %look, label %clock
clock:
  %t = call i64 @rt.nanoseconds()
  %spent = sub i64 %t, %start
  %young = icmp ult i64 %spent, 40000
  br i1 %young, label %burst, label %expired
changed:
  ret i1 true
expired:
  ret i1 false
}

; ---------------------------------------------------------------- working

; Claim and run pieces until none is left, starting with range `first`. A claim takes
; a quarter of what remains of a range: few calls of the body, small tails to steal.
define internal void @rt.work(i64 %first) nounwind <<COMDAT_USE>>{
entry:
  %body = load ptr, ptr @rt.body, align 8
  %context = load ptr, ptr @rt.context, align 8
  %count = load i64, ptr @rt.count, align 8
  br label %range
range:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %shifted = add i64 %first, %i
  %at = urem i64 %shifted, %count
  %here = getelementptr [256 x [16 x i64]], ptr @rt.ranges, i64 0, i64 %at
  %end.at = getelementptr i64, ptr %here, i64 1
  %end = load i64, ptr %end.at, align 8
  %seen = load atomic i64, ptr %here monotonic, align 128
  br label %claim
claim:
  %begin = phi i64 [ %seen, %range ], [ %found, %lost ], [ %fresh, %ran ]
  %rest = sub i64 %end, %begin
  %any = icmp sgt i64 %rest, 0
  br i1 %any, label %try, label %next
try:
  %rounded = add i64 %rest, 3
  %piece = lshr i64 %rounded, 2
  %stop = add i64 %begin, %piece
  %pair = cmpxchg ptr %here, i64 %begin, i64 %stop monotonic monotonic, align 128
  %won = extractvalue { i64, i1 } %pair, 1
  br i1 %won, label %run, label %lost
lost:
  %found = extractvalue { i64, i1 } %pair, 0
  br label %claim
run:
  call void %body(ptr %context, i64 %begin, i64 %stop)
  br label %ran
ran:
  %fresh = load atomic i64, ptr %here monotonic, align 128
  br label %claim
next:
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, %count
  br i1 %more, label %range, label %done
done:
  ret void
}

; Count one thread in; false, and no change, if the gate is closed.
define internal i1 @rt.enter() nounwind <<COMDAT_USE>>{
entry:
  %first = load atomic i32, ptr @rt.gate monotonic, align 128
  br label %look
look:
  %gate = phi i32 [ %first, %entry ], [ %found, %try ]
  %closed = and i32 %gate, 1073741824
  %open = icmp eq i32 %closed, 0
  br i1 %open, label %try, label %shut
try:
  %more = add i32 %gate, 1
  %pair = cmpxchg weak ptr @rt.gate, i32 %gate, i32 %more acq_rel monotonic, align 128
  %found = extractvalue { i32, i1 } %pair, 0
  %won = extractvalue { i32, i1 } %pair, 1
  br i1 %won, label %in, label %look
in:
  ret i1 true
shut:
  ret i1 false
}

define internal void @rt.leave() nounwind <<COMDAT_USE>>{
entry:
  %old = atomicrmw sub ptr @rt.gate, i32 1 acq_rel, align 128
  %last = icmp eq i32 %old, 1610612737 ; CLOSED | WAITED | 1
  br i1 %last, label %call, label %done
call:
  call void @rt.wake(ptr @rt.gate, i32 1)
  br label %done
done:
  ret void
}

define internal ptr @rt.worker(ptr %argument) nounwind <<COMDAT_USE>>{
entry:
  %index = ptrtoint ptr %argument to i64
  br label %top
top:
  ; The epoch is read before the gate is tried: a region that opens after the attempt
  ; bumps the epoch past `seen`.
  %seen = load atomic i32, ptr @rt.epoch acquire, align 128
  %limit = load atomic i32, ptr @rt.limit acquire, align 128
  %limit64 = zext i32 %limit to i64
  %spare = icmp uge i64 %index, %limit64
  br i1 %spare, label %bench, label %enter
bench: ; over the limit: `ansor_set_threads` wakes it
  call void @rt.sleep(ptr @rt.limit, i32 %limit)
  br label %top
enter:
  %in = call i1 @rt.enter()
  br i1 %in, label %inside, label %wait
inside:
  %admitted = load i64, ptr @rt.admitted, align 8
  %welcome = icmp ult i64 %index, %admitted
  br i1 %welcome, label %work, label %leave
work:
  call void @rt.work(i64 %index)
  br label %leave
leave:
  call void @rt.leave()
  br label %wait
wait:
  %changed = call i1 @rt.spin(ptr @rt.epoch, i32 %seen)
  br i1 %changed, label %top, label %park
park:
  %s = atomicrmw add ptr @rt.sleepers, i32 1 seq_cst, align 4
  %now = load atomic i32, ptr @rt.epoch seq_cst, align 128
  %same = icmp eq i32 %now, %seen
  br i1 %same, label %doze, label %rise
doze:
  call void @rt.sleep(ptr @rt.epoch, i32 %seen)
  br label %rise
rise:
  %t = atomicrmw sub ptr @rt.sleepers, i32 1 seq_cst, align 4
  br label %top
}

; ---------------------------------------------------------------- owning the pool

; Create workers until there are `wanted`. They inherit a full signal mask, so signals
; go on reaching the threads of the program.
define internal void @rt.spawn(i32 %wanted) noinline nounwind <<COMDAT_USE>>{
entry:
  %all = alloca [128 x i8], align 8
  %old = alloca [128 x i8], align 8
  %thread = alloca i64, align 8
  call void @llvm.memset.p0.i64(ptr %all, i8 -1, i64 128, i1 false)
  %m = call i32 @pthread_sigmask(i32 2, ptr %all, ptr %old)
  %first = load i32, ptr @rt.workers, align 4
  br label %next
next:
  %have = phi i32 [ %first, %entry ], [ %index, %created ]
  %enough = icmp sge i32 %have, %wanted
  br i1 %enough, label %done, label %create
create:
  %index = add i32 %have, 1
  %wide = zext i32 %index to i64
  %argument = inttoptr i64 %wide to ptr
  %error = call i32 @pthread_create(ptr %thread, ptr null, ptr @rt.worker, ptr %argument)
  %fine = icmp eq i32 %error, 0
  br i1 %fine, label %created, label %refused
created:
  %id = load i64, ptr %thread, align 8
  %d = call i32 @pthread_detach(i64 %id)
  br label %next
refused:
  store atomic i32 1, ptr @rt.refused monotonic, align 4
  br label %done
done:
  %total = phi i32 [ %have, %next ], [ %have, %refused ]
  store i32 %total, ptr @rt.workers, align 4
  %restored = call i32 @pthread_sigmask(i32 2, ptr %old, ptr null)
  ret void
}

; True if this process, not a parent it was forked from, owns the pool. After a fork
; the first caller adopts it: the threads are gone, the rest of the state is reset.
define internal i1 @rt.adopt() nounwind <<COMDAT_USE>>{
entry:
  %pid = call i32 @getpid()
  %wide = zext i32 %pid to i64
  %mine = shl i64 %wide, 1
  %owner = load atomic i64, ptr @rt.owner acquire, align 128
  %ours = icmp eq i64 %owner, %mine
  br i1 %ours, label %yes, label %foreign
foreign:
  %adopting = or i64 %mine, 1
  %taken = icmp eq i64 %owner, %adopting
  br i1 %taken, label %no, label %claim
claim:
  %pair = cmpxchg ptr @rt.owner, i64 %owner, i64 %adopting acq_rel acquire, align 128
  %won = extractvalue { i64, i1 } %pair, 1
  br i1 %won, label %reset, label %no
reset:
  store i32 0, ptr @rt.workers, align 4
  store atomic i32 0, ptr @rt.refused monotonic, align 4
  store atomic i32 0, ptr @rt.sleepers monotonic, align 4
  store atomic i32 1073741824, ptr @rt.gate monotonic, align 128
  store atomic i32 0, ptr @rt.lock monotonic, align 128
  store atomic i64 %mine, ptr @rt.owner release, align 128
  br label %yes
yes:
  ret i1 true
no:
  ret i1 false
}

; Cut [0, n) into `count` ranges: range t is [t*n/count, (t+1)*n/count).
define internal void @rt.cut(i64 %n, i64 %count) nounwind <<COMDAT_USE>>{
entry:
  %size = udiv i64 %n, %count
  %extra = urem i64 %n, %count
  br label %range
range:
  %t = phi i64 [ 0, %entry ], [ %t.next, %range ]
  %t.next = add i64 %t, 1
  %b.base = mul i64 %t, %size
  %b.over = mul i64 %t, %extra
  %b.part = udiv i64 %b.over, %count
  %begin = add i64 %b.base, %b.part
  %e.base = mul i64 %t.next, %size
  %e.over = mul i64 %t.next, %extra
  %e.part = udiv i64 %e.over, %count
  %end = add i64 %e.base, %e.part
  %here = getelementptr [256 x [16 x i64]], ptr @rt.ranges, i64 0, i64 %t
  store atomic i64 %begin, ptr %here monotonic, align 128
  %end.at = getelementptr i64, ptr %here, i64 1
  store i64 %end, ptr %end.at, align 8
  %more = icmp ult i64 %t.next, %count
  br i1 %more, label %range, label %done
done:
  ret void
}

; Close the gate and wait until everybody has left.
define internal void @rt.join() nounwind <<COMDAT_USE>>{
entry:
  %shut = atomicrmw or ptr @rt.gate, i32 1073741824 acq_rel, align 128
  br label %look
look:
  %gate = load atomic i32, ptr @rt.gate acquire, align 128
  %inside = and i32 %gate, 536870911
  %empty = icmp eq i32 %inside, 0
  br i1 %empty, label %done, label %wait
wait:
  %changed = call i1 @rt.spin(ptr @rt.gate, i32 %gate)
  br i1 %changed, label %look, label %park
park:
  %waited = or i32 %gate, 536870912
  %pair = cmpxchg ptr @rt.gate, i32 %gate, i32 %waited acq_rel acquire, align 128
  %marked = extractvalue { i32, i1 } %pair, 1
  br i1 %marked, label %doze, label %look
doze:
  call void @rt.sleep(ptr @rt.gate, i32 %waited)
  br label %look
done:
  ret void
}

; Run one region on the pool; the caller holds the lock. 1 < threads, 1 < n.
define internal void @rt.region(ptr %body, ptr %context, i64 %n, i64 %threads) nounwind <<COMDAT_USE>>{
entry:
  %count = call i64 @llvm.smin.i64(i64 %threads, i64 %n)
  %count32 = trunc i64 %count to i32
  %helpers = sub i32 %count32, 1
  %have = load i32, ptr @rt.workers, align 4
  %few = icmp slt i32 %have, %helpers
  %refused = load atomic i32, ptr @rt.refused monotonic, align 4
  %allowed = icmp eq i32 %refused, 0
  %grow = and i1 %few, %allowed
  br i1 %grow, label %spawn, label %publish
spawn:
  call void @rt.spawn(i32 %helpers)
  br label %publish
publish:
  store ptr %body, ptr @rt.body, align 8
  store ptr %context, ptr @rt.context, align 8
  store i64 %count, ptr @rt.count, align 8
  store i64 %threads, ptr @rt.admitted, align 8
  call void @rt.cut(i64 %n, i64 %count)
  %g = atomicrmw and ptr @rt.gate, i32 536870911 acq_rel, align 128 ; open
  %e = atomicrmw add ptr @rt.epoch, i32 1 seq_cst, align 128
  %sleepers = load atomic i32, ptr @rt.sleepers seq_cst, align 4
  %asleep = icmp sgt i32 %sleepers, 0
  br i1 %asleep, label %rouse, label %work
rouse:
  call void @rt.wake(ptr @rt.epoch, i32 %helpers)
  br label %work
work:
  call void @rt.work(i64 0)
  call void @rt.join()
  ret void
}

; ---------------------------------------------------------------- entry points

; Run body(context, begin, end) over disjoint pieces of [0, n), on all threads.
define <<API>> void @ansor_parallel_for(ptr %body, ptr %context, i64 %n) noinline nounwind <<COMDAT_USE>>{
entry:
  %many = icmp sgt i64 %n, 1
  br i1 %many, label %size, label %few
few:
  %one = icmp eq i64 %n, 1
  br i1 %one, label %serial, label %done
size:
  %threads32 = call i32 @ansor_get_threads()
  %threads = zext i32 %threads32 to i64
  %team = icmp ugt i64 %threads, 1
  br i1 %team, label %adopt, label %serial
adopt:
  %ours = call i1 @rt.adopt()
  br i1 %ours, label %lock, label %serial
lock:
  %pair = cmpxchg ptr @rt.lock, i32 0, i32 1 acquire monotonic, align 128
  %free = extractvalue { i32, i1 } %pair, 1
  br i1 %free, label %region, label %serial
region:
  call void @rt.region(ptr %body, ptr %context, i64 %n, i64 %threads)
  store atomic i32 0, ptr @rt.lock release, align 128
  br label %done
serial:
  call void %body(ptr %context, i64 0, i64 %n)
  br label %done
done:
  ret void
}

; CPUs this process may run on, from 1 to 256.
define internal i32 @rt.processors() nounwind <<COMDAT_USE>>{
entry:
  %mask = alloca [16 x i64], align 8
  call void @llvm.memset.p0.i64(ptr %mask, i8 0, i64 128, i1 false)
  %error = call i32 @sched_getaffinity(i32 0, i64 128, ptr %mask)
  %fine = icmp sge i32 %error, 0
  br i1 %fine, label %word, label %ask
word:
  %i = phi i64 [ 0, %entry ], [ %i.next, %word ]
  %sum = phi i64 [ 0, %entry ], [ %sum.next, %word ]
  %at = getelementptr i64, ptr %mask, i64 %i
  %bits = load i64, ptr %at, align 8
  %ones = call i64 @llvm.ctpop.i64(i64 %bits)
  %sum.next = add i64 %sum, %ones
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, 16
  br i1 %more, label %word, label %clamp
ask: ; more than 1024 CPUs
  %online = call i64 @sysconf(i32 84)
  br label %clamp
clamp:
  %found = phi i64 [ %sum.next, %word ], [ %online, %ask ]
  %low = call i64 @llvm.smax.i64(i64 %found, i64 1)
  %high = call i64 @llvm.smin.i64(i64 %low, i64 256)
  %result = trunc i64 %high to i32
  ret i32 %result
}

; Threads that a region may use, the caller included.
define <<API>> i32 @ansor_get_threads() noinline nounwind <<COMDAT_USE>>{
entry:
  %limit = load atomic i32, ptr @rt.limit acquire, align 128
  %known = icmp ne i32 %limit, 0
  br i1 %known, label %done, label %count
count:
  %found = call i32 @rt.processors()
  %pair = cmpxchg ptr @rt.limit, i32 0, i32 %found acq_rel acquire, align 128
  %set = extractvalue { i32, i1 } %pair, 1
  %other = extractvalue { i32, i1 } %pair, 0
  %first = select i1 %set, i32 %found, i32 %other
  br label %done
done:
  %result = phi i32 [ %limit, %entry ], [ %first, %count ]
  ret i32 %result
}

; Use at most `threads`, at most 256; 0 or less means all CPUs.
define <<API>> void @ansor_set_threads(i32 %threads) noinline nounwind <<COMDAT_USE>>{
entry:
  %given = icmp sgt i32 %threads, 0
  br i1 %given, label %set, label %count
count:
  %found = call i32 @rt.processors()
  br label %set
set:
  %wanted = phi i32 [ %threads, %entry ], [ %found, %count ]
  %big = icmp sgt i32 %wanted, 256
  %limit = select i1 %big, i32 256, i32 %wanted
  store atomic i32 0, ptr @rt.refused monotonic, align 4
  store atomic i32 %limit, ptr @rt.limit release, align 128
  call void @rt.wake(ptr @rt.limit, i32 2147483647)
  ret void
}
