/* What the core calls on each edge of a build for fuzzing: fuzz targets count edges, the extension
 * does not. */
void __sanitizer_cov_trace_pc(void);

__attribute__((no_sanitize("address", "undefined"))) void __sanitizer_cov_trace_pc(void)
{
}
