"""What every other part uses: files, checks, text, randomness, threads, processes. Imports only errors."""
