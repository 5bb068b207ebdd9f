-- What was one collective on all its ranks.
-- A view: other questions build on it. One row a group, number and operation; times of the common clock in ns.
-- skew_ns: from the first rank's begin to the last one's; transfer_ns: from there until the first rank left; end_skew_ns: until
-- all had. transfer_ns < 0: clocks or the match are wrong by that. min_duration_ns and durations_ns,
-- the shortest time of a rank and the sum of all, need no clock. last_rank entered last, and
-- gap_ns after the one before it: what would be gained if it alone were on time. bound_ns: no difference is wrong by more, proved.
-- Calls that return before the collective ends (source 'host') have no end: is_timed is 0 then.
WITH seen AS (
  SELECT job, attempt, group_key, group_name, seq, op,
         MIN(step) AS step, MAX(group_size) AS group_size, COUNT(*) AS ranks_seen, MAX(in_bytes) AS in_bytes,
         MIN(CASE WHEN source = 'host' THEN 0 ELSE 1 END) AS is_timed,
         MIN(begin_ns) AS first_begin_ns, MAX(begin_ns) AS last_begin_ns,
         MIN(end_ns) AS first_end_ns, MAX(end_ns) AS last_end_ns,
         MIN(end_ns - begin_ns) AS min_duration_ns, SUM(end_ns - begin_ns) AS durations_ns, MAX(bound_ns) AS bound_ns,
         MAX(estimate_error_ns) AS estimate_error_ns
  FROM collectives
  WHERE is_p2p = 0 AND match <> 'none'
  GROUP BY job, attempt, group_key, group_name, seq, op),
last_of AS (
  SELECT c.job, c.attempt, c.group_key, c.seq, c.op, MIN(c.rank) AS last_rank
  FROM collectives c JOIN seen s
    ON c.job = s.job AND c.attempt = s.attempt AND c.group_key = s.group_key AND c.seq = s.seq AND c.op = s.op
   AND c.begin_ns = s.last_begin_ns
  WHERE c.is_p2p = 0 AND c.match <> 'none'
  GROUP BY c.job, c.attempt, c.group_key, c.seq, c.op),
before_last AS (
  SELECT c.job, c.attempt, c.group_key, c.seq, c.op, MAX(l.last_rank) AS last_rank,
         MAX(CASE WHEN c.rank <> l.last_rank THEN c.begin_ns END) AS begin_ns
  FROM collectives c JOIN last_of l
    ON c.job = l.job AND c.attempt = l.attempt AND c.group_key = l.group_key AND c.seq = l.seq AND c.op = l.op
  WHERE c.is_p2p = 0 AND c.match <> 'none'
  GROUP BY c.job, c.attempt, c.group_key, c.seq, c.op)
SELECT s.job, s.attempt, s.group_key, s.group_name, s.seq, s.op, s.step, s.group_size, s.ranks_seen, s.in_bytes, s.is_timed,
       s.first_begin_ns, s.last_begin_ns, s.first_end_ns, s.last_end_ns,
       s.last_begin_ns - s.first_begin_ns AS skew_ns, s.first_end_ns - s.last_begin_ns AS transfer_ns,
       s.last_end_ns - s.first_end_ns AS end_skew_ns, s.min_duration_ns, s.durations_ns,
       s.bound_ns, s.estimate_error_ns,
       b.last_rank, s.last_begin_ns - b.begin_ns AS gap_ns
FROM seen s LEFT JOIN before_last b
  ON s.job = b.job AND s.attempt = b.attempt AND s.group_key = b.group_key AND s.seq = b.seq AND s.op = b.op
