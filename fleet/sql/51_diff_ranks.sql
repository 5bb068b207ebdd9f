-- Which ranks have changed from one run to another.
-- For 'fleet diff': before_ranks and after_ranks are rank_summary of the two. One row a rank, the largest change first, twenty of
-- them, ns a step of own time; is_beyond_noise as in diff_run. A rank that only one of the runs has is NULL in the other.
SELECT COALESCE(b.rank, a.rank) AS rank, b.mean_ns AS before_ns, a.mean_ns AS after_ns, a.mean_ns - b.mean_ns AS change_ns,
       a.mean_ns / NULLIF(b.mean_ns, 0e0) - 1e0 AS change, SQRT(a.error_ns * a.error_ns + b.error_ns * b.error_ns) AS error_ns,
       CASE WHEN ABS(a.mean_ns - b.mean_ns) > 3e0 * SQRT(a.error_ns * a.error_ns + b.error_ns * b.error_ns)
             AND ABS(a.mean_ns - b.mean_ns) > 0.01e0 * b.mean_ns THEN 1 ELSE 0 END AS is_beyond_noise
FROM before_ranks b FULL OUTER JOIN after_ranks a ON b.rank = a.rank
ORDER BY ABS(COALESCE(a.mean_ns - b.mean_ns, 0e0)) DESC, rank
LIMIT 20
