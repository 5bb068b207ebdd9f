# Requests that anybody on the machine may send to `view`.
proftrace_fuzz_target(http_request_fuzz SOURCES http_request_fuzz.cc LIBS proftrace_view)
