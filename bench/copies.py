"""A SQLite database of a server with many more runs than ran: copies of those that it has."""

import contextlib
import sqlite3

# A job's id is its number in the run behind the run's id.
JOBS_PER_RUN = 1 << 20


def multiply(database, runs):
    """Copies runs until there are so many: all rows of them, their places in the queue too, as if each had been triggered."""
    with contextlib.closing(sqlite3.connect(database)) as base:
        tables = [name for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns = {name: [found[1] for found in base.execute(f"PRAGMA table_info({name})")] for name in tables}
        of_runs = [name for name in tables if name in ("runs", "queue") or "run_id" in columns[name]]
        of_runs = [name for name in of_runs if name not in ("trigger_keys", "leases")]
        first, last, count = base.execute("SELECT min(id), max(id), count(*) FROM runs").fetchone()
        base.execute("PRAGMA foreign_keys = OFF")
        while count < runs:
            shift = last - first + 1
            take = min(count, runs - count)
            for name in of_runs:
                key = {"runs": "id", "queue": f"job_id / {JOBS_PER_RUN}"}.get(name, "run_id")
                values = []
                for column in columns[name]:
                    if column == key:
                        values.append(f"{column} + {shift}")
                    elif column == "job_id" or (name == "jobs" and column == "id"):
                        values.append(f"{column} + {shift * JOBS_PER_RUN}")
                    elif column == "run_number":
                        values.append(f"{column} + {count}")
                    elif column == "id":
                        values.append("NULL")
                    else:
                        values.append(column)
                source = f"SELECT {', '.join(values)} FROM {name} WHERE {key} < {first + take}"
                base.execute(f"INSERT OR IGNORE INTO {name} ({', '.join(columns[name])}) {source}")
            last, count = base.execute("SELECT max(id), count(*) FROM runs").fetchone()
        for (name,) in base.execute("SELECT name FROM sqlite_master WHERE name = 'sqlite_sequence'").fetchall():
            base.execute(f"UPDATE {name} SET seq = max(seq, {last}) WHERE name = 'runs'")
        base.commit()
        base.execute("ANALYZE")
        base.commit()
        return count
