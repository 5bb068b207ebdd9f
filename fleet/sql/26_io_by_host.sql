-- How much file I/O the hosts do, and how fast it is.
-- One row a host and kind of file, the slowest first; ns. gb_s_a_thread: bytes by the time in the calls.
SELECT job, attempt, host, kind, SUM(calls) AS calls, SUM(bytes_read) AS bytes_read, SUM(bytes_written) AS bytes_written,
       SUM(time_ns) AS time_ns, SUM(bytes_read + bytes_written) * 1e0 / NULLIF(SUM(time_ns), 0) AS gb_s_a_thread,
       MAX(longest_ns) AS longest_ns
FROM rank_files
GROUP BY job, attempt, host, kind
ORDER BY gb_s_a_thread, job, attempt, host, kind
