-- Which ranks are alike: those that a rank may be compared with.
-- A view: other questions build on it. One row a rank. Alike are ranks of one job and attempt with the same kind of GPU, the same
-- collectives and messages a step, and the same largest reduction: stages of a pipeline differ in these. cohort is the least rank
-- of those that are alike, cohort_ranks how many they are; ranks without collectives are alike.
WITH traffic AS (
  SELECT job, attempt, rank, SUM(CASE WHEN is_p2p = 0 THEN 1 ELSE 0 END) AS collectives,
         SUM(CASE WHEN is_p2p = 1 THEN 1 ELSE 0 END) AS messages,
         MAX(CASE WHEN op IN ('allreduce', 'reduce_scatter', '_reduce_scatter_base', 'allreduce_coalesced') THEN in_bytes END)
           AS largest_bytes
  FROM collectives
  WHERE step IS NOT NULL
  GROUP BY job, attempt, rank),
own AS (
  SELECT job, attempt, rank, MIN(host) AS host, COUNT(*) AS steps FROM own_time GROUP BY job, attempt, rank),
gpus AS (
  SELECT job, attempt, rank, MAX(gpu) AS gpu FROM captures GROUP BY job, attempt, rank),
facts AS (
  SELECT o.job, o.attempt, o.rank, o.host, o.steps, COALESCE(g.gpu, '') AS gpu,
         COALESCE(ROUND(t.collectives * 1e0 / o.steps), 0e0) AS collectives,
         COALESCE(ROUND(t.messages * 1e0 / o.steps), 0e0) AS messages,
         COALESCE(t.largest_bytes, 0) AS largest_bytes
  FROM own o
  LEFT JOIN traffic t ON o.job = t.job AND o.attempt = t.attempt AND o.rank = t.rank
  LEFT JOIN gpus g ON o.job = g.job AND o.attempt = g.attempt AND o.rank = g.rank)
SELECT job, attempt, rank, host, steps, gpu,
       MIN(rank) OVER (PARTITION BY job, attempt, gpu, collectives, messages, largest_bytes) AS cohort,
       COUNT(*) OVER (PARTITION BY job, attempt, gpu, collectives, messages, largest_bytes) AS cohort_ranks
FROM facts
