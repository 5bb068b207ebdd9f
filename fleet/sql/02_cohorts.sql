-- Which ranks are alike: those that a rank may be compared with.
-- A view: other questions build on it. One row a rank. Alike are ranks of one job and attempt with the same kind of GPU, the same
-- collectives and messages a step, and the same largest reduction: stages of a pipeline differ in these. cohort is the least rank
-- of those that are alike, cohort_ranks how many they are; ranks without collectives are alike. A recording may not name its GPU
-- or tell sizes (without --record-shapes): its rank is like the others where these leave no choice.
WITH traffic AS (
  SELECT job, attempt, rank, SUM(CASE WHEN is_p2p = 0 THEN 1 ELSE 0 END) AS collectives,
         SUM(CASE WHEN is_p2p = 1 THEN 1 ELSE 0 END) AS messages,
         SUM(is_reduction) AS reductions, MAX(CASE WHEN is_reduction = 1 THEN in_bytes END) AS largest_bytes
  FROM (
    SELECT c.*, CASE WHEN op IN ('allreduce', 'reduce_scatter', '_reduce_scatter_base', 'allreduce_coalesced') THEN 1 ELSE 0 END
                  AS is_reduction
    FROM collectives c) k
  WHERE step IS NOT NULL
  GROUP BY job, attempt, rank),
own AS (
  SELECT job, attempt, rank, MIN(host) AS host, COUNT(*) AS steps, MAX(COALESCE(gpu_compute_ns, 0)) AS gpu_ns
  FROM own_time GROUP BY job, attempt, rank),
gpus AS (
  SELECT job, attempt, rank, MAX(gpu) AS gpu FROM captures GROUP BY job, attempt, rank),
facts AS (
  SELECT o.job, o.attempt, o.rank, o.host, o.steps, NULLIF(g.gpu, '') AS gpu, CASE WHEN o.gpu_ns > 0 THEN 1 ELSE 0 END AS has_gpu,
         COALESCE(ROUND(t.collectives * 1e0 / o.steps), 0e0) AS collectives,
         COALESCE(ROUND(t.messages * 1e0 / o.steps), 0e0) AS messages,
         CASE WHEN COALESCE(t.reductions, 0) = 0 THEN 0 ELSE NULLIF(t.largest_bytes, 0) END AS largest_bytes
  FROM own o
  LEFT JOIN traffic t ON o.job = t.job AND o.attempt = t.attempt AND o.rank = t.rank
  LEFT JOIN gpus g ON o.job = g.job AND o.attempt = g.attempt AND o.rank = g.rank),
of_gpus AS (
  SELECT job, attempt, rank, host, steps, collectives, messages, largest_bytes,
         COALESCE(gpu, CASE WHEN has_gpu = 0 THEN ''
                            WHEN MIN(gpu) OVER (PARTITION BY job, attempt) = MAX(gpu) OVER (PARTITION BY job, attempt)
                            THEN MAX(gpu) OVER (PARTITION BY job, attempt) END, 'not named') AS gpu
  FROM facts),
of_sizes AS (
  SELECT job, attempt, rank, host, steps, gpu, collectives, messages,
         COALESCE(largest_bytes, CASE WHEN MIN(largest_bytes) OVER (PARTITION BY job, attempt, gpu, collectives, messages)
                                         = MAX(largest_bytes) OVER (PARTITION BY job, attempt, gpu, collectives, messages)
                                      THEN MAX(largest_bytes) OVER (PARTITION BY job, attempt, gpu, collectives, messages) END, 0)
           AS largest_bytes
  FROM of_gpus)
SELECT job, attempt, rank, host, steps, gpu,
       MIN(rank) OVER (PARTITION BY job, attempt, gpu, collectives, messages, largest_bytes) AS cohort,
       COUNT(*) OVER (PARTITION BY job, attempt, gpu, collectives, messages, largest_bytes) AS cohort_ranks
FROM of_sizes
