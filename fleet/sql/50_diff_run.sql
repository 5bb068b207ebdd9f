-- What has changed from one run to another, by the parts of a step.
-- For 'fleet diff': before_run and after_run are run_summary of the two. One row a part, the largest change first, ns a step.
-- is_beyond_noise is 1 where the change is more than three times its standard error and more than 1 % of the step.
SELECT COALESCE(b.what, a.what) AS what, b.mean_ns AS before_ns, a.mean_ns AS after_ns, a.mean_ns - b.mean_ns AS change_ns,
       a.mean_ns / NULLIF(b.mean_ns, 0e0) - 1e0 AS change, SQRT(a.error_ns * a.error_ns + b.error_ns * b.error_ns) AS error_ns,
       CASE WHEN ABS(a.mean_ns - b.mean_ns) > 3e0 * SQRT(a.error_ns * a.error_ns + b.error_ns * b.error_ns)
             AND ABS(a.mean_ns - b.mean_ns) > 0.01e0 * s.mean_ns THEN 1 ELSE 0 END AS is_beyond_noise
FROM before_run b FULL OUTER JOIN after_run a ON b.what = a.what
CROSS JOIN (SELECT MAX(mean_ns) AS mean_ns FROM before_run WHERE what = 'step') s
ORDER BY CASE WHEN COALESCE(b.what, a.what) = 'step' THEN 0 ELSE 1 END, ABS(COALESCE(a.mean_ns - b.mean_ns, 0e0)) DESC, what
