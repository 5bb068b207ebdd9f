-- Each step's time without the exposed time in collectives, and the parts of it.
-- A view: other questions build on it. One row a rank and step, ns. own_ns is the step less the time in which a collective was
-- under way and the rank computed nothing: what a slow rank does to others is not in it. The parts, from data_ns to waiting_ns,
-- add up to own_ns; they are NULL where the recording has no times off the CPU (--activities sched).
-- system_calls_ns: in system calls that are no I/O, or off the CPU for other reasons: sleep, poll, a child process. waiting_ns:
-- for other threads, in calls of CUDA that wait, and the rest, less what of it was a collective's. recording_ns: what the records
-- of system activity took; NULL in tables of older versions, where the other parts have that time.
SELECT job, attempt, rank, host, step, start_ns, duration_ns, bound_ns,
       duration_ns - COALESCE(comm_exposed_ns, 0) AS own_ns, COALESCE(comm_exposed_ns, 0) AS exposed_ns,
       why_data_ns AS data_ns, why_io_ns AS io_ns, why_lock_ns AS lock_ns, why_run_queue_ns AS run_queue_ns,
       why_faults_ns AS faults_ns, why_recording_ns AS recording_ns, why_collection_ns AS collection_ns,
       why_operators_ns AS operators_ns, why_python_ns AS python_ns, why_other_ns AS system_calls_ns,
       duration_ns - COALESCE(comm_exposed_ns, 0) - why_data_ns - why_io_ns - why_lock_ns - why_run_queue_ns
         - why_faults_ns - COALESCE(why_recording_ns, 0) - why_collection_ns - why_operators_ns - why_python_ns - why_other_ns
         AS waiting_ns,
       gpu_compute_ns
FROM steps
WHERE is_main = 1 AND rank IS NOT NULL
