-- Which ranks are slow, since which step, by how much, why, and what shows it.
-- One row a slow rank (is_slow of the view ranks), the slowest first; ns a step. lost_share: of the step. cause and coverage as in
-- ranks. others_wait_ns: what another rank spends in the same collectives more than it does, on the average; that needs no clock.
-- times_last: the share of the collectives that it entered last; held_up_ns: for how long it alone kept the others there, and
-- beyond_clock_error_ns how much of that is more than twice the error that is proved for the clocks. These are of the steps with
-- collectives that all ranks were seen in; NULL where there are none. sure: 'sure' where all ranks were seen and the collectives
-- say the same (others_wait_ns is half of its excess at least); else 'likely'. The rest tells where to look: the operator whose
-- own time exceeds the other ranks' most, the file that its DataLoader waited for longest, the file that its calls took longest for.
WITH slow AS (SELECT * FROM ranks WHERE is_slow = 1),
seen AS (
  SELECT job, attempt, COUNT(DISTINCT rank) AS ranks_seen, MAX(world_size) AS world_size FROM captures GROUP BY job, attempt),
held AS (
  SELECT s.job, s.attempt, s.rank, COUNT(*) AS instances, COUNT(DISTINCT c.step) AS steps,
         SUM(CASE WHEN i.last_rank = s.rank THEN 1 ELSE 0 END) AS times_last,
         SUM((i.durations_ns - (c.end_ns - c.begin_ns)) * 1e0 / (i.group_size - 1) - (c.end_ns - c.begin_ns)) AS others_wait_ns,
         SUM(CASE WHEN i.last_rank = s.rank THEN i.gap_ns ELSE 0 END) AS held_up_ns,
         SUM(CASE WHEN i.last_rank = s.rank AND i.gap_ns > 2 * i.bound_ns THEN i.gap_ns ELSE 0 END) AS beyond_clock_error_ns
  FROM slow s
  JOIN collectives c ON c.job = s.job AND c.attempt = s.attempt AND c.rank = s.rank
  JOIN collective_instances i
    ON c.job = i.job AND c.attempt = i.attempt AND c.group_key = i.group_key AND c.seq = i.seq AND c.op = i.op
  WHERE c.is_p2p = 0 AND c.match <> 'none' AND i.is_timed = 1 AND i.ranks_seen = i.group_size AND i.group_size > 1
    AND c.step BETWEEN s.from_step AND s.to_step
  GROUP BY s.job, s.attempt, s.rank),
usual_operators AS (
  SELECT c.job, c.attempt, c.cohort, o.name, MEDIAN(o.self_ns * 1e0 / c.steps) AS self_ns
  FROM rank_operators o JOIN cohorts c ON o.job = c.job AND o.attempt = c.attempt AND o.rank = c.rank
  GROUP BY c.job, c.attempt, c.cohort, o.name),
operator_excess AS (
  SELECT s.job, s.attempt, s.rank, o.name, o.self_ns * 1e0 / c.steps - COALESCE(u.self_ns, 0e0) AS excess_ns
  FROM slow s
  JOIN rank_operators o ON o.job = s.job AND o.attempt = s.attempt AND o.rank = s.rank
  JOIN cohorts c ON c.job = s.job AND c.attempt = s.attempt AND c.rank = s.rank
  LEFT JOIN usual_operators u ON u.job = s.job AND u.attempt = s.attempt AND u.cohort = c.cohort AND u.name = o.name),
worst_operator AS (
  SELECT * FROM (
    SELECT e.*, ROW_NUMBER() OVER (PARTITION BY job, attempt, rank ORDER BY excess_ns DESC, name) AS place FROM operator_excess e) p
  WHERE place = 1),
loader_files AS (
  SELECT d.job, d.attempt, d.rank, d.path, SUM(d.call_ns) AS call_ns
  FROM loader_waits d JOIN slow s ON d.job = s.job AND d.attempt = s.attempt AND d.rank = s.rank
  GROUP BY d.job, d.attempt, d.rank, d.path),
worst_loader_file AS (
  SELECT * FROM (
    SELECT f.*, ROW_NUMBER() OVER (PARTITION BY job, attempt, rank ORDER BY call_ns DESC, path) AS place FROM loader_files f) p
  WHERE place = 1),
loader AS (
  SELECT job, attempt, rank, SUM(worker_io_ns) * 1e0 / NULLIF(SUM(blocked_ns), 0) AS io_share
  FROM loader_waits GROUP BY job, attempt, rank),
files AS (
  SELECT f.job, f.attempt, f.rank, COALESCE(f.file, '') AS path, SUM(f.time_ns) AS time_ns
  FROM rank_files f JOIN slow s ON f.job = s.job AND f.attempt = s.attempt AND f.rank = s.rank
  GROUP BY f.job, f.attempt, f.rank, COALESCE(f.file, '')),
worst_file AS (
  SELECT * FROM (
    SELECT f.*, ROW_NUMBER() OVER (PARTITION BY job, attempt, rank ORDER BY time_ns DESC, path) AS place FROM files f) p
  WHERE place = 1)
SELECT s.job, s.attempt, s.rank, s.host, s.has_changed, s.from_step, s.to_step, s.first_step, s.last_step, s.steps, s.slow_steps,
       s.step_ns, s.excess_ns, s.score AS lost_share, s.error_ns, s.cause, s.largest_part, s.coverage, s.cohort_ranks,
       n.ranks_seen, n.world_size, h.others_wait_ns / h.steps AS others_wait_ns,
       h.times_last * 1e0 / h.instances AS times_last, h.held_up_ns * 1e0 / h.steps AS held_up_ns,
       h.beyond_clock_error_ns * 1e0 / h.steps AS beyond_clock_error_ns,
       CASE WHEN n.ranks_seen >= n.world_size AND h.others_wait_ns / h.steps >= 0.5e0 * s.excess_ns
            THEN 'sure' ELSE 'likely' END AS sure,
       o.name AS operator, o.excess_ns AS operator_excess_ns, l.path AS loader_path, w.io_share AS loader_io_share,
       f.path AS file, f.time_ns AS file_ns
FROM slow s
LEFT JOIN seen n ON n.job = s.job AND n.attempt = s.attempt
LEFT JOIN held h ON h.job = s.job AND h.attempt = s.attempt AND h.rank = s.rank
LEFT JOIN worst_operator o ON o.job = s.job AND o.attempt = s.attempt AND o.rank = s.rank
LEFT JOIN worst_loader_file l ON l.job = s.job AND l.attempt = s.attempt AND l.rank = s.rank
LEFT JOIN loader w ON w.job = s.job AND w.attempt = s.attempt AND w.rank = s.rank
LEFT JOIN worst_file f ON f.job = s.job AND f.attempt = s.attempt AND f.rank = s.rank
ORDER BY s.excess_ns DESC, s.job, s.attempt, s.rank
LIMIT 20
