//! The built-in `actions/cache`: scenarios that need no mirror and no Node.

use super::{Machines, command, job, write};

/// A step that uses a part of the action.
fn uses(id: &str, part: &str, with: &str) -> String {
    format!("      - id: {id}\n        uses: actions/cache{part}@v4\n        with: {{{with}}}\n")
}

/// How many bytes were new, as the log says.
fn new_bytes(log: &str) -> u64 {
    let at = log.find("; new: ").unwrap_or_else(|| panic!("nothing was saved:\n{log}"));
    let rest = &log[at + "; new: ".len()..];
    rest.split(' ').next().and_then(|number| number.parse().ok()).expect("it is a number")
}

/// R8, C7
pub(crate) fn a_second_save_of_a_built_in_cache_moves_only_what_changed(machines: Machines<'_>) {
    let with =
        "path: \"deps\\n!deps/tmp\", key: 'deps-${{ steps.k.outputs.key }}', restore-keys: deps-";
    let steps = [
        "      - id: k\n        run: echo key=$(date +%s%N) >> $GITHUB_OUTPUT\n".to_owned(),
        uses("c", "", with),
        command(
            "echo \"hit=[${{ steps.c.outputs.cache-hit }}] found=[${{ steps.c.outputs.cache-matched-key }}]\"
            test '${{ steps.c.outputs.cache-primary-key }}' = 'deps-${{ steps.k.outputs.key }}'
            if test -e deps; then
              test \"$(ls deps | wc -l)\" = 402 && test \"$(readlink deps/link)\" = f1 && test -x deps/f2
              test ! -e deps/tmp && sha256sum -c deps/.sums
              echo changed >> deps/f3
            else
              mkdir deps
              for n in $(seq 400); do echo \"file $n $RANDOM$RANDOM$RANDOM\" > deps/f$n; done
              head -c 3000000 /dev/urandom > deps/big && ln -s f1 deps/link && chmod +x deps/f2
              sha256sum deps/big deps/f4 > deps/.sums
            fi
            mkdir deps/tmp && head -c 100000 /dev/urandom > deps/tmp/x",
        ),
    ];
    let machine = machines(&|place| write(place, &[job("one", "", &steps)]));
    let first = machine.run();
    for expected in
        ["Cache not found for input keys: deps-", "hit=[] found=[]", "Cache saved with key: deps-"]
    {
        assert!(first.contains(expected), "{expected} not in {first}");
    }
    let second = machine.run();
    for expected in [
        "Cache restored from key: deps-",
        "hit=[false] found=[deps-",
        "Cache saved with key: deps-",
    ] {
        assert!(second.contains(expected), "{expected} not in {second}");
    }
    let (all, more) = (new_bytes(&first), new_bytes(&second));
    assert!(all > 3_000_000 && more < 50_000, "{all} {more}");
    assert!(machine.run().contains("Cache restored from key: deps-"));
}

/// R8
pub(crate) fn the_built_in_cache_does_what_its_inputs_say(machines: Machines<'_>) {
    let first = [
        uses("a", "/restore", "path: deps, key: k-1, restore-keys: k-"),
        command(
            "test -z '${{ steps.a.outputs.cache-hit }}' && mkdir -p deps/in && echo one > deps/in/a",
        ),
        uses("b", "/save", "path: deps, key: k-1"),
        // A key is written once, and what is not there is not saved: neither fails the job.
        uses("c", "/save", "path: deps, key: k-1"),
        uses("d", "/save", "path: nothing, key: k-2"),
        command(
            "mkdir -p \"$HOME/.built-in\" && echo home > \"$HOME/.built-in/x\" && echo glob > g1.txt",
        ),
        uses("e", "/save", "path: \"~/.built-in\\n*.txt\", key: home"),
        command("rm -rf \"$HOME/.built-in\" g1.txt"),
        uses("f", "/restore", "path: \"~/.built-in\\n*.txt\", key: home, fail-on-cache-miss: true"),
        command(
            "test \"$(cat \"$HOME/.built-in/x\" g1.txt | tr '\\n' ' ')\" = 'home glob ' && rm -r \"$HOME/.built-in\"",
        ),
    ];
    let second = [
        uses("a", "/restore", "path: deps, key: k-9, restore-keys: \"x-\\nk-\", lookup-only: true"),
        command("test '${{ steps.a.outputs.cache-hit }} ${{ steps.a.outputs.cache-matched-key }}' = 'false k-1' && test ! -e deps"),
        uses("b", "", "path: deps, key: k-1, typo: 1"),
        command("test '${{ steps.b.outputs.cache-hit }}' = true && test \"$(cat deps/in/a)\" = one"),
        // Other paths are another cache.
        uses("c", "/restore", "path: other, key: k-1"),
        command("test -z '${{ steps.c.outputs.cache-matched-key }}'"),
        "      - id: d\n        continue-on-error: true\n        uses: actions/cache/restore@v4\n        \
         with: {path: deps, key: none, fail-on-cache-miss: true}\n"
            .to_owned(),
        command("test '${{ steps.d.outcome }}' = failure"),
    ];
    let third = [
        uses("a", "", "path: deps, key: of a failed job"),
        command("mkdir deps && touch deps/x && exit 1"),
    ];
    let fourth = [
        uses("a", "/restore", "path: deps, key: of a failed job"),
        command("test -z '${{ steps.a.outputs.cache-matched-key }}'"),
    ];
    let after = |name: &str| format!("    needs: {name}\n");
    let jobs = [
        job("one", "", &first),
        job("two", &after("one"), &second),
        job("three", &format!("{}    continue-on-error: true\n", after("two")), &third),
        job("four", &format!("{}    if: always()\n", after("three")), &fourth),
    ];
    let out = machines(&|place| write(place, &jobs)).run();
    for expected in [
        "Cache not found for input keys: k-1, k-",
        "Unable to reserve cache with key k-1, another job may be creating this cache.",
        "Path Validation Error: Path(s) specified in the action for caching do(es) not exist",
        "Cache found and can be restored from key: k-1",
        "Cache hit occurred on the primary key k-1, not saving cache.",
        "the action has no input `typo`",
        "Exiting as fail-on-cache-miss is set. Input key: none",
    ] {
        assert!(out.contains(expected), "{expected} not in {out}");
    }
    assert!(!out.contains("Cache saved with key: of a failed job"), "{out}");
}
