-- Each rank's excess while it is slow, whether it stands out, and the part of its time that explains it.
-- A view: other questions build on it. One row a rank that has others like it; ns a step, over the steps from from_step to to_step.
-- is_slow is 1 where the excess is more than 5 % of the step, more than three times what ranks differ by usually (spread_ns, by the
-- medians of distances), more than twice its own standard error, and there in a tenth of the steps and in three of them at least.
-- cause is the part with the largest excess, 'gpu' where the rank waits because its GPU computed longer; coverage is that part's
-- share of the excess. Under a half the cause is 'unknown'; 'not recorded' where the recording has no parts.
WITH slow AS (
  SELECT e.job, e.attempt, e.rank, e.host, e.cohort, MAX(e.cohort_ranks) AS cohort_ranks, p.has_changed,
         p.from_step, p.to_step, p.first_step, p.last_step, p.outside_ns,
         COUNT(*) AS steps, AVG(e.excess_ns) AS excess_ns, MAX(e.spread_ns) AS spread_ns, MIN(e.has_parts) AS has_parts,
         AVG(e.cohort_duration_ns) AS step_ns, COALESCE(STDDEV_SAMP(e.excess_ns), 0e0) / SQRT(COUNT(*)) AS error_ns,
         SUM(CASE WHEN e.excess_ns > 0.05e0 * e.cohort_duration_ns THEN 1 ELSE 0 END) AS slow_steps,
         AVG(e.data_ns) AS data_ns,
         AVG(e.io_ns) AS io_ns,
         AVG(e.lock_ns) AS lock_ns,
         AVG(e.run_queue_ns) AS run_queue_ns,
         AVG(e.faults_ns) AS faults_ns,
         AVG(e.collection_ns) AS collection_ns,
         AVG(e.operators_ns) AS operators_ns,
         AVG(e.python_ns) AS python_ns,
         AVG(e.waiting_ns) AS waiting_ns,
         AVG(e.gpu_compute_ns) AS gpu_compute_ns
  FROM excess e JOIN slow_periods p ON e.job = p.job AND e.attempt = p.attempt AND e.rank = p.rank
  WHERE e.step BETWEEN p.from_step AND p.to_step
  GROUP BY e.job, e.attempt, e.rank, e.host, e.cohort, p.has_changed, p.from_step, p.to_step, p.first_step, p.last_step,
           p.outside_ns),
largest AS (
  SELECT s.*, GREATEST(data_ns, io_ns, lock_ns, run_queue_ns, faults_ns, collection_ns, operators_ns, python_ns, waiting_ns) AS largest_ns FROM slow s),
explained AS (
  SELECT l.*,
         CASE WHEN gpu_compute_ns >= 0.5e0 * excess_ns AND (has_parts = 0 OR largest_ns = waiting_ns) THEN 'gpu'
              ELSE CASE largest_ns
              WHEN data_ns THEN 'data'
              WHEN io_ns THEN 'io'
              WHEN lock_ns THEN 'lock'
              WHEN run_queue_ns THEN 'run queue'
              WHEN faults_ns THEN 'faults'
              WHEN collection_ns THEN 'garbage collection'
              WHEN operators_ns THEN 'operators'
              WHEN python_ns THEN 'python'
              WHEN waiting_ns THEN 'waiting'
              END END AS part,
         CASE WHEN gpu_compute_ns >= 0.5e0 * excess_ns AND (has_parts = 0 OR largest_ns = waiting_ns) THEN gpu_compute_ns ELSE largest_ns END
           AS part_ns
  FROM largest l)
SELECT job, attempt, rank, host, cohort, cohort_ranks, has_changed, from_step, to_step, first_step, last_step, steps, slow_steps,
       step_ns, excess_ns, outside_ns, excess_ns / NULLIF(step_ns, 0e0) AS score, spread_ns, error_ns,
       CASE WHEN excess_ns > 0.05e0 * step_ns AND excess_ns > 3e0 * spread_ns AND excess_ns > 2e0 * error_ns
             AND slow_steps >= 3 AND slow_steps * 10 >= steps THEN 1 ELSE 0 END AS is_slow,
       CASE WHEN part IS NULL THEN 'not recorded'
            WHEN part_ns >= 0.5e0 * excess_ns THEN part ELSE 'unknown' END AS cause,
       part AS largest_part, part_ns / NULLIF(excess_ns, 0e0) AS coverage,
       data_ns, io_ns, lock_ns, run_queue_ns, faults_ns, collection_ns, operators_ns, python_ns, waiting_ns, gpu_compute_ns
FROM explained
