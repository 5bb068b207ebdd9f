-- How long each rank waits in collectives for others, and how often the others wait for it.
-- One row a rank; sums in ns as in wait_transfer. times_last: collectives that it entered last.
SELECT c.job, c.attempt, c.rank, SUM(c.end_ns - c.begin_ns) AS duration_ns, SUM(i.last_begin_ns - c.begin_ns) AS wait_ns,
       SUM(i.first_end_ns - i.last_begin_ns) AS transfer_ns, SUM(c.end_ns - i.first_end_ns) AS tail_ns,
       SUM(c.end_ns - c.begin_ns - i.min_duration_ns) AS wait_without_clocks_ns,
       SUM(CASE WHEN i.last_rank = c.rank THEN 1 ELSE 0 END) AS times_last, COUNT(*) AS instances, MAX(i.bound_ns) AS bound_ns
FROM collectives c JOIN collective_instances i
  ON c.job = i.job AND c.attempt = i.attempt AND c.group_key = i.group_key AND c.seq = i.seq AND c.op = i.op
WHERE c.is_p2p = 0 AND c.match <> 'none' AND i.is_timed = 1 AND i.ranks_seen = i.group_size
GROUP BY c.job, c.attempt, c.rank
ORDER BY wait_ns, c.job, c.attempt, c.rank
