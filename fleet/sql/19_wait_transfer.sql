-- What ranks wait for each other in collectives, and what the transfers take, by group and operation.
-- One row a group and operation, of collectives that all ranks were seen in; sums over ranks and collectives in ns. A rank's time
-- in a collective is wait + transfer + tail exactly: until the last rank had entered, until the first one left, until it left
-- itself. wait_without_clocks_ns: what its time exceeds the shortest rank's by, which needs no clock; where it differs from
-- wait_ns + tail_ns by more than the clocks' error, clocks or the match are wrong. bound_ns: no wait of a collective is wrong by
-- more, proved.
SELECT c.job, c.attempt, c.group_key, c.group_name, c.op, MAX(c.group_size) AS group_size, COUNT(DISTINCT c.seq) AS instances,
       SUM(c.end_ns - c.begin_ns) AS duration_ns, SUM(i.last_begin_ns - c.begin_ns) AS wait_ns,
       SUM(i.first_end_ns - i.last_begin_ns) AS transfer_ns, SUM(c.end_ns - i.first_end_ns) AS tail_ns,
       SUM(c.end_ns - c.begin_ns - i.min_duration_ns) AS wait_without_clocks_ns, MAX(i.bound_ns) AS bound_ns,
       MEDIAN(i.transfer_ns) AS transfer_median_ns
FROM collectives c JOIN collective_instances i
  ON c.job = i.job AND c.attempt = i.attempt AND c.group_key = i.group_key AND c.seq = i.seq AND c.op = i.op
WHERE c.is_p2p = 0 AND c.match <> 'none' AND i.is_timed = 1 AND i.ranks_seen = i.group_size
GROUP BY c.job, c.attempt, c.group_key, c.group_name, c.op
ORDER BY wait_ns DESC, c.job, c.attempt, c.group_key, c.op
