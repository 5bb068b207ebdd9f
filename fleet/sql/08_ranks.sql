-- Each rank's excess while it is slow, whether it stands out, and the part of its time that explains it.
-- A view: other questions build on it. One row a rank that has others like it; ns a step, over the steps from from_step to to_step.
-- is_slow is 1 where the excess is more than 5 % of the step, more than three times what ranks differ by usually (spread_ns, by the
-- medians of distances), more than twice its own standard error, and there in a tenth of the steps and in three of them at least.
-- cause is the part with the largest excess, 'gpu' where the rank waits because its GPU computed longer; coverage is that part's
-- share of the excess. Under a half the cause is 'unknown'; 'not recorded' where the recording has no parts.
WITH slow AS (
  SELECT e.job, e.attempt, e.rank, e.host, e.cohort, MAX(e.cohort_ranks) AS cohort_ranks, p.has_changed,
         p.from_step, p.to_step, p.first_step, p.last_step, p.outside_ns,
         COUNT(*) AS steps, AVG(e.excess_ns) AS excess_ns, MAX(e.spread_ns) AS spread_ns,
         AVG(e.cohort_duration_ns) AS step_ns, COALESCE(STDDEV_SAMP(e.excess_ns), 0e0) / SQRT(COUNT(*)) AS error_ns,
         SUM(CASE WHEN e.excess_ns > 0.05e0 * e.cohort_duration_ns THEN 1 ELSE 0 END) AS slow_steps
  FROM excess e JOIN slow_periods p ON e.job = p.job AND e.attempt = p.attempt AND e.rank = p.rank
  WHERE e.step BETWEEN p.from_step AND p.to_step
  GROUP BY e.job, e.attempt, e.rank, e.host, e.cohort, p.has_changed, p.from_step, p.to_step, p.first_step, p.last_step,
           p.outside_ns),
compared AS (
  SELECT s.*, l.part AS largest_part, l.ns AS largest_ns,
         CASE WHEN g.ns >= 0.5e0 * s.excess_ns AND (l.part IS NULL OR l.part IN ('waiting', 'system calls')) THEN 1 ELSE 0 END
           AS is_gpu, g.ns AS gpu_ns
  FROM slow s
  LEFT JOIN rank_parts l ON s.job = l.job AND s.attempt = l.attempt AND s.rank = l.rank AND l.place = 1 AND l.is_part = 1
  LEFT JOIN rank_parts g ON s.job = g.job AND s.attempt = g.attempt AND s.rank = g.rank AND g.part = 'gpu'),
explained AS (
  SELECT c.*, CASE WHEN is_gpu = 1 THEN 'gpu' ELSE largest_part END AS part,
         CASE WHEN is_gpu = 1 THEN gpu_ns ELSE largest_ns END AS part_ns
  FROM compared c)
SELECT job, attempt, rank, host, cohort, cohort_ranks, has_changed, from_step, to_step, first_step, last_step, steps, slow_steps,
       step_ns, excess_ns, outside_ns, excess_ns / NULLIF(step_ns, 0e0) AS score, spread_ns, error_ns,
       CASE WHEN excess_ns > 0.05e0 * step_ns AND excess_ns > 3e0 * spread_ns AND excess_ns > 2e0 * error_ns
             AND slow_steps >= 3 AND slow_steps * 10 >= steps THEN 1 ELSE 0 END AS is_slow,
       CASE WHEN part IS NULL THEN 'not recorded'
            WHEN part_ns >= 0.5e0 * excess_ns THEN part ELSE 'unknown' END AS cause,
       part AS largest_part, part_ns / NULLIF(excess_ns, 0e0) AS coverage
FROM explained
