"""The C function behind every fast caller, as LLVM IR: `wrapper` explains it and fills the table that it reads.

`self` is a tuple whose first item is the table's address. Offsets 16 (data), 24 (rank), 32 (dims), 56 (dtype) and 64
(flags) are those of ndarray; 8 is the type of any object.
"""

__all__ = ["CALL"]

CALL = """
%table = type { ptr, i64, i64, i64, ptr, i64, i64, ptr, ptr, ptr, ptr, ptr, i64, ptr, i64, i64 }
%input = type { i64, ptr, ptr, i64, ptr, i64, i64, i64 }
%output = type { i64, ptr, i64, ptr, i64 }
%slot = type { i64, i64 }

declare ptr @PyTuple_GetItem(ptr, i64)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare ptr @PyLong_AsVoidPtr(ptr)
declare double @PyFloat_AsDouble(ptr)
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare i32 @PyObject_IsTrue(ptr)
declare double @PyComplex_RealAsDouble(ptr)
declare double @PyComplex_ImagAsDouble(ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyErr_NoMemory()
declare ptr @PyObject_CallNoArgs(ptr)
declare ptr @tsk_array_new(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare ptr @tsk_set_handler(ptr)
declare ptr @tsk_array_scalar(ptr, ptr, ptr)
declare void @tsk_array_scalar_value(ptr, ptr)
declare i32 @posix_memalign(ptr, i64, i64)
declare void @free(ptr)
declare i64 @llvm.readcyclecounter()

define ptr @tsk_call(ptr %self, ptr %args, i64 %nargs) {
entry:
  %item = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %t = call ptr @PyLong_AsVoidPtr(ptr %item)
  %n_in.p = getelementptr %table, ptr %t, i64 0, i32 1
  %n_in = load i64, ptr %n_in.p
  %n_out.p = getelementptr %table, ptr %t, i64 0, i32 2
  %n_out = load i64, ptr %n_out.p
  %ins.p = getelementptr %table, ptr %t, i64 0, i32 10
  %ins = load ptr, ptr %ins.p
  %outs.p = getelementptr %table, ptr %t, i64 0, i32 11
  %outs = load ptr, ptr %outs.p
  %in = alloca ptr, i64 %n_in, align 16
  %in.slots = alloca %slot, i64 %n_in, align 16
  %out = alloca ptr, i64 %n_out, align 16
  %out.slots = alloca %slot, i64 %n_out, align 16
  %objects = alloca ptr, i64 %n_out, align 16
  %overflow = alloca i32
  %own = alloca ptr
  %count.ok = icmp eq i64 %nargs, %n_in
  br i1 %count.ok, label %clock.head, label %miss

; ---- a miss once the clock has come to `due`, if that is not 0
clock.head:
  %due.p = getelementptr %table, ptr %t, i64 0, i32 14
  %due = load i64, ptr %due.p
  %never = icmp eq i64 %due, 0
  br i1 %never, label %arg.head, label %clock
clock:
  %now = call i64 @llvm.readcyclecounter()
  %early = icmp ult i64 %now, %due
  br i1 %early, label %arg.head, label %late
late:
  %seen.p = getelementptr %table, ptr %t, i64 0, i32 15
  store i64 %now, ptr %seen.p
  br label %miss

; ---- every argument must be exactly what its record says
arg.head:
  %i = phi i64 [0, %clock.head], [0, %clock], [%i.next, %arg.next]
  %more = icmp slt i64 %i, %n_in
  br i1 %more, label %arg, label %args.done
arg:
  %rec = getelementptr %input, ptr %ins, i64 %i
  %value.p = getelementptr ptr, ptr %args, i64 %i
  %value = load ptr, ptr %value.p
  %type.p = getelementptr i8, ptr %value, i64 8
  %type = load ptr, ptr %type.p
  %want.type.p = getelementptr %input, ptr %rec, i64 0, i32 1
  %want.type = load ptr, ptr %want.type.p
  %type.ok = icmp eq ptr %type, %want.type
  br i1 %type.ok, label %arg.typed, label %miss
arg.typed:
  %slot = getelementptr %slot, ptr %in.slots, i64 %i
  %kind = load i64, ptr %rec
  switch i64 %kind, label %miss [
    i64 0, label %array
    i64 1, label %float
    i64 2, label %int
    i64 3, label %bool
    i64 4, label %complex
    i64 5, label %scalar
  ]
array:
  %descr.p = getelementptr i8, ptr %value, i64 56
  %descr = load ptr, ptr %descr.p
  %want.descr.p = getelementptr %input, ptr %rec, i64 0, i32 2
  %want.descr = load ptr, ptr %want.descr.p
  %descr.ok = icmp eq ptr %descr, %want.descr
  %rank.p = getelementptr i8, ptr %value, i64 24
  %rank32 = load i32, ptr %rank.p
  %rank = zext i32 %rank32 to i64
  %want.rank.p = getelementptr %input, ptr %rec, i64 0, i32 3
  %want.rank = load i64, ptr %want.rank.p
  %rank.ok = icmp eq i64 %rank, %want.rank
  %flags.p = getelementptr i8, ptr %value, i64 64
  %flags32 = load i32, ptr %flags.p
  %flags = zext i32 %flags32 to i64
  %want.flags.p = getelementptr %input, ptr %rec, i64 0, i32 6
  %want.flags = load i64, ptr %want.flags.p
  %flags.got = and i64 %flags, %want.flags
  %flags.ok = icmp eq i64 %flags.got, %want.flags
  %ok1 = and i1 %descr.ok, %rank.ok
  %ok2 = and i1 %ok1, %flags.ok
  br i1 %ok2, label %array.dims, label %miss
array.dims:
  %dims.p = getelementptr i8, ptr %value, i64 32
  %dims = load ptr, ptr %dims.p
  %want.dims.p = getelementptr %input, ptr %rec, i64 0, i32 4
  %want.dims = load ptr, ptr %want.dims.p
  br label %dim.head
dim.head:
  %j = phi i64 [0, %array.dims], [%j.next, %dim]
  %dim.more = icmp slt i64 %j, %rank
  br i1 %dim.more, label %dim, label %array.done
dim:
  %d.p = getelementptr i64, ptr %dims, i64 %j
  %d = load i64, ptr %d.p
  %want.d.p = getelementptr i64, ptr %want.dims, i64 %j
  %want.d = load i64, ptr %want.d.p
  %d.ok = icmp eq i64 %d, %want.d
  %j.next = add i64 %j, 1
  br i1 %d.ok, label %dim.head, label %miss
array.done:
  %data.p = getelementptr i8, ptr %value, i64 16
  %data = load ptr, ptr %data.p
  br label %arg.next
float:
  %f = call double @PyFloat_AsDouble(ptr %value)
  store double %f, ptr %slot
  br label %arg.next
int:
  %n = call i64 @PyLong_AsLongLongAndOverflow(ptr %value, ptr %overflow)
  store i64 %n, ptr %slot
  %over = load i32, ptr %overflow
  %fits = icmp eq i32 %over, 0
  br i1 %fits, label %arg.next, label %miss
bool:
  %b = call i32 @PyObject_IsTrue(ptr %value)
  %b8 = trunc i32 %b to i8
  store i8 %b8, ptr %slot
  br label %arg.next
complex:
  %re = call double @PyComplex_RealAsDouble(ptr %value)
  %im = call double @PyComplex_ImagAsDouble(ptr %value)
  store double %re, ptr %slot
  %im.p = getelementptr i8, ptr %slot, i64 8
  store double %im, ptr %im.p
  br label %arg.next
scalar:
  call void @tsk_array_scalar_value(ptr %value, ptr %slot)
  br label %arg.next
arg.next:
  %where = phi ptr [%data, %array.done], [%slot, %float], [%slot, %int], [%slot, %bool], [%slot, %complex], [%slot, %scalar]
  %in.p = getelementptr ptr, ptr %in, i64 %i
  store ptr %where, ptr %in.p
  %i.next = add i64 %i, 1
  br label %arg.head

; ---- a donated argument must share its memory with no other argument
args.done:
  %n_donated.p = getelementptr %table, ptr %t, i64 0, i32 12
  %n_donated = load i64, ptr %n_donated.p
  %any.donated = icmp ne i64 %n_donated, 0
  br i1 %any.donated, label %donor.head, label %clear.head
donor.head:
  %a = phi i64 [0, %args.done], [%a.next, %donor.next]
  %a.more = icmp slt i64 %a, %n_in
  br i1 %a.more, label %donor, label %clear.head
donor:
  %a.rec = getelementptr %input, ptr %ins, i64 %a
  %a.donated.p = getelementptr %input, ptr %a.rec, i64 0, i32 7
  %a.donated = load i64, ptr %a.donated.p
  %a.is = icmp ne i64 %a.donated, 0
  %a.in.p = getelementptr ptr, ptr %in, i64 %a
  %a.start = load ptr, ptr %a.in.p
  %a.bytes.p = getelementptr %input, ptr %a.rec, i64 0, i32 5
  %a.bytes = load i64, ptr %a.bytes.p
  %a.end = getelementptr i8, ptr %a.start, i64 %a.bytes
  br i1 %a.is, label %other.head, label %donor.next
other.head:
  %b.i = phi i64 [0, %donor], [%b.next, %other.next]
  %b.more = icmp slt i64 %b.i, %n_in
  br i1 %b.more, label %other, label %donor.next
other:
  %same = icmp eq i64 %a, %b.i
  %b.rec = getelementptr %input, ptr %ins, i64 %b.i
  %b.in.p = getelementptr ptr, ptr %in, i64 %b.i
  %b.start = load ptr, ptr %b.in.p
  %b.bytes.p = getelementptr %input, ptr %b.rec, i64 0, i32 5
  %b.bytes = load i64, ptr %b.bytes.p
  %b.end = getelementptr i8, ptr %b.start, i64 %b.bytes
  %lap1 = icmp ult ptr %a.start, %b.end
  %lap2 = icmp ult ptr %b.start, %a.end
  %lap = and i1 %lap1, %lap2
  %differ = xor i1 %same, true
  %bad = and i1 %lap, %differ
  br i1 %bad, label %miss, label %other.next
other.next:
  %b.next = add i64 %b.i, 1
  br label %other.head
donor.next:
  %a.next = add i64 %a, 1
  br label %donor.head

; ---- results: new arrays, slots for scalars, or the donated arguments
clear.head:
  %c = phi i64 [0, %args.done], [0, %donor.head], [%c.next, %clear]
  %c.more = icmp slt i64 %c, %n_out
  br i1 %c.more, label %clear, label %out.first
clear:
  %c.p = getelementptr ptr, ptr %objects, i64 %c
  store ptr null, ptr %c.p
  %c.next = add i64 %c, 1
  br label %clear.head
out.first:
  %array.type.p = getelementptr %table, ptr %t, i64 0, i32 9
  %array.type = load ptr, ptr %array.type.p
  %handler.p = getelementptr %table, ptr %t, i64 0, i32 13
  %handler = load ptr, ptr %handler.p
  %plain = icmp eq ptr %handler, null
  br i1 %plain, label %out.start, label %handler.set
handler.set:
  %set.before = call ptr @tsk_set_handler(ptr %handler)
  %set.bad = icmp eq ptr %set.before, null
  br i1 %set.bad, label %fail, label %out.start
out.start:
  %before = phi ptr [null, %out.first], [%set.before, %handler.set]
  br label %out.head
out.head:
  %o = phi i64 [0, %out.start], [%o.next, %out.next]
  %o.more = icmp slt i64 %o, %n_out
  br i1 %o.more, label %out.make, label %out.done
out.make:
  %orec = getelementptr %output, ptr %outs, i64 %o
  %object.p = getelementptr ptr, ptr %objects, i64 %o
  %mode = load i64, ptr %orec
  switch i64 %mode, label %out.array [ i64 1, label %out.scalar
                                       i64 2, label %out.donated ]
out.array:
  %o.descr.p = getelementptr %output, ptr %orec, i64 0, i32 1
  %o.descr = load ptr, ptr %o.descr.p
  %o.rank.p = getelementptr %output, ptr %orec, i64 0, i32 2
  %o.rank = load i64, ptr %o.rank.p
  %o.rank32 = trunc i64 %o.rank to i32
  %o.dims.p = getelementptr %output, ptr %orec, i64 0, i32 3
  %o.dims = load ptr, ptr %o.dims.p
  call void @Py_IncRef(ptr %o.descr)
  %new = call ptr @tsk_array_new(ptr %array.type, ptr %o.descr, i32 %o.rank32, ptr %o.dims, ptr null, ptr null, i32 0, ptr null)
  store ptr %new, ptr %object.p
  %new.bad = icmp eq ptr %new, null
  br i1 %new.bad, label %out.done, label %out.array.data
out.array.data:
  %new.data.p = getelementptr i8, ptr %new, i64 16
  %new.data = load ptr, ptr %new.data.p
  br label %out.next
out.scalar:
  %o.slot = getelementptr %slot, ptr %out.slots, i64 %o
  br label %out.next
out.donated:
  %o.donor.p = getelementptr %output, ptr %orec, i64 0, i32 4
  %o.donor = load i64, ptr %o.donor.p
  %donated.p = getelementptr ptr, ptr %args, i64 %o.donor
  %donated = load ptr, ptr %donated.p
  call void @Py_IncRef(ptr %donated)
  store ptr %donated, ptr %object.p
  %donated.in.p = getelementptr ptr, ptr %in, i64 %o.donor
  %donated.data = load ptr, ptr %donated.in.p
  br label %out.next
out.next:
  %o.where = phi ptr [%new.data, %out.array.data], [%o.slot, %out.scalar], [%donated.data, %out.donated]
  %out.p = getelementptr ptr, ptr %out, i64 %o
  store ptr %o.where, ptr %out.p
  %o.next = add i64 %o, 1
  br label %out.head
out.done:
  %o.failed = phi i1 [false, %out.head], [true, %out.array]
  br i1 %plain, label %out.settled, label %handler.reset
handler.reset:
  %ours = call ptr @tsk_set_handler(ptr %before)
  call void @Py_DecRef(ptr %ours)
  call void @Py_DecRef(ptr %before)
  br label %out.settled
out.settled:
  br i1 %o.failed, label %fail, label %arena.get

; ---- the arena: ours, or one for this call when ours is in use
arena.get:
  %arena.p = getelementptr %table, ptr %t, i64 0, i32 4
  %arena = load ptr, ptr %arena.p
  %bytes.p = getelementptr %table, ptr %t, i64 0, i32 5
  %bytes = load i64, ptr %bytes.p
  %in.use.p = getelementptr %table, ptr %t, i64 0, i32 6
  %swap = cmpxchg ptr %in.use.p, i64 0, i64 1 acquire monotonic
  %got = extractvalue { i64, i1 } %swap, 1
  br i1 %got, label %gil, label %arena.own
arena.own:
  %status = call i32 @posix_memalign(ptr %own, i64 64, i64 %bytes)
  %no.memory = icmp ne i32 %status, 0
  br i1 %no.memory, label %arena.none, label %arena.made
arena.none:
  %ignored = call ptr @PyErr_NoMemory()
  br label %fail
arena.made:
  %made = load ptr, ptr %own
  br label %gil

; ---- the call
gil:
  %scratch = phi ptr [%arena, %arena.get], [%made, %arena.made]
  %main = load ptr, ptr %t
  %release.p = getelementptr %table, ptr %t, i64 0, i32 3
  %release = load i64, ptr %release.p
  %holds = icmp eq i64 %release, 0
  br i1 %holds, label %call.holding, label %call.released
call.holding:
  %rc1 = call i32 %main(ptr %in, ptr %out, ptr %scratch)
  br label %called
call.released:
  %state = call ptr @PyEval_SaveThread()
  %rc2 = call i32 %main(ptr %in, ptr %out, ptr %scratch)
  call void @PyEval_RestoreThread(ptr %state)
  br label %called
called:
  %rc = phi i32 [%rc1, %call.holding], [%rc2, %call.released]
  br i1 %got, label %arena.back, label %arena.free
arena.back:
  store atomic i64 0, ptr %in.use.p release, align 8
  br label %checked
arena.free:
  call void @free(ptr %scratch)
  br label %checked
checked:
  %good = icmp eq i32 %rc, 0
  br i1 %good, label %finish.head, label %raise
raise:
  %raiser.p = getelementptr %table, ptr %t, i64 0, i32 8
  %raiser = load ptr, ptr %raiser.p
  %none = call ptr @PyObject_CallNoArgs(ptr %raiser)
  br label %fail

; ---- hand the results over
finish.head:
  %r = phi i64 [0, %checked], [%r.next, %finish.next]
  %r.more = icmp slt i64 %r, %n_out
  br i1 %r.more, label %finish, label %wrap
finish:
  %rrec = getelementptr %output, ptr %outs, i64 %r
  %r.mode = load i64, ptr %rrec
  %r.scalar = icmp eq i64 %r.mode, 1
  br i1 %r.scalar, label %finish.scalar, label %finish.next
finish.scalar:
  %r.descr.p = getelementptr %output, ptr %rrec, i64 0, i32 1
  %r.descr = load ptr, ptr %r.descr.p
  %r.slot = getelementptr %slot, ptr %out.slots, i64 %r
  %made.scalar = call ptr @tsk_array_scalar(ptr %r.slot, ptr %r.descr, ptr null)
  %r.p = getelementptr ptr, ptr %objects, i64 %r
  store ptr %made.scalar, ptr %r.p
  %scalar.bad = icmp eq ptr %made.scalar, null
  br i1 %scalar.bad, label %fail, label %finish.next
finish.next:
  %r.next = add i64 %r, 1
  br label %finish.head
wrap:
  %single = icmp eq i64 %n_out, 1
  br i1 %single, label %wrap.one, label %wrap.tuple
wrap.one:
  %only = load ptr, ptr %objects
  ret ptr %only
wrap.tuple:
  %tuple = call ptr @PyTuple_New(i64 %n_out)
  %tuple.bad = icmp eq ptr %tuple, null
  br i1 %tuple.bad, label %fail, label %fill.head
fill.head:
  %k = phi i64 [0, %wrap.tuple], [%k.next, %fill]
  %k.more = icmp slt i64 %k, %n_out
  br i1 %k.more, label %fill, label %wrap.done
fill:
  %k.p = getelementptr ptr, ptr %objects, i64 %k
  %k.object = load ptr, ptr %k.p
  %k.status = call i32 @PyTuple_SetItem(ptr %tuple, i64 %k, ptr %k.object)
  %k.next = add i64 %k, 1
  br label %fill.head
wrap.done:
  ret ptr %tuple

; ---- an exception is set: drop what was made
fail:
  br label %drop.head
drop.head:
  %x = phi i64 [0, %fail], [%x.next, %drop]
  %x.more = icmp slt i64 %x, %n_out
  br i1 %x.more, label %drop, label %drop.done
drop:
  %x.p = getelementptr ptr, ptr %objects, i64 %x
  %x.object = load ptr, ptr %x.p
  call void @Py_DecRef(ptr %x.object)
  %x.next = add i64 %x, 1
  br label %drop.head
drop.done:
  ret ptr null

miss:
  %miss.p = getelementptr %table, ptr %t, i64 0, i32 7
  %miss.object = load ptr, ptr %miss.p
  call void @Py_IncRef(ptr %miss.object)
  ret ptr %miss.object
}
"""  # noqa: E501
