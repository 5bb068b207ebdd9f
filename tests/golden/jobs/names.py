"""Annotations with names that some format must escape, cut or replace."""

import time

import torch

torch.set_num_threads(1)
NAMES = [
    "",
    " ",
    'say "hi", twice',
    "a;b;c",
    "line\nbreak\r\n\ttab",
    "nul\0inside",
    "back\\slash \\u0041 / slash",
    "<script>alert('&amp;')</script>",
    "=1+1",
    "emoji \U0001f525 \u00fc\u4e2d\u202eright to left",
    b"invalid \xff\xfe utf-8 \xc3",
    b"\xed\xa0\x80 surrogate, \xc0\x80 overlong",
    "\x01\x1b[31mescape\x7f",
    "aten::add",
    "fits in one record " + "x" * (248 - 19),
    "one byte more than a record " + "x" * (249 - 28),
    "exactly the limit " + "y" * (4096 - 18),
    "over the limit, cut inside a character:" + "\u00e9" * 2500,
    "z" * 5000,
]
values = torch.ones(2)
enter = torch.ops.profiler._record_function_enter_new
leave = torch.ops.profiler._record_function_exit
while True:
    for name in NAMES:
        handle = enter(name, None)
        values.add(1)
        if hasattr(leave, "_RecordFunction"):
            leave._RecordFunction(handle)
        else:
            leave(handle)
    time.sleep(0.03)
