"""Worker processes: native code in a process of its own, which may end without ending ours."""
