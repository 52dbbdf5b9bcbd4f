//! The built-in `actions/upload-artifact` and `actions/download-artifact`: scenarios that need no mirror and no Node.

use super::{Machines, command, job, script, write};

fn uses(id: &str, action: &str, with: &str) -> String {
    format!("      - id: {id}\n        uses: actions/{action}@v4\n        with: {{{with}}}\n")
}

fn upload(id: &str, with: &str) -> String {
    uses(id, "upload-artifact", with)
}

fn download(id: &str, with: &str) -> String {
    uses(id, "download-artifact", with)
}

/// A step that must fail.
fn fails(id: &str, action: &str, with: &str) -> String {
    let step = uses(id, action, with);
    let step = step.replace("        uses:", "        continue-on-error: true\n        uses:");
    step + &command(&format!("test '${{{{ steps.{id}.outcome }}}}' = failure"))
}

/// R9
pub(crate) fn artifacts_go_from_job_to_job_without_a_mirror(machines: Machines<'_>) {
    let first = [
        command(
            "mkdir -p dist/in logs .hidden && echo one > dist/a.js && echo two > dist/in/b.js && echo map > dist/in/b.map
            echo log > logs/x.txt && echo secret > dist/.env && head -c 3000000 /dev/urandom > dist/big
            sha256sum dist/big | cut -d' ' -f1 > dist/sum",
        ),
        upload("u", "name: dist, path: \"dist\\n!**/*.map\""),
        command(
            "test -n '${{ steps.u.outputs.artifact-id }}' && test ${#DIGEST} = 64
            case '${{ steps.u.outputs.artifact-url }}' in */actions/runs/$GITHUB_RUN_ID/artifacts/${{ steps.u.outputs.artifact-id }}) ;; *) exit 1 ;; esac"
        ).replace("      - run: |", "      - env: {DIGEST: '${{ steps.u.outputs.artifact-digest }}'}\n        run: |"),
        upload("m", "name: many, path: \"logs\\ndist/in\", retention-days: 2, compression-level: 0"),
        upload("o", "path: dist/a.js"),
        upload("h", "name: hidden, path: dist, include-hidden-files: true"),
        upload("n", "name: nothing, path: nowhere"),
        upload("i", "name: nothing, path: nowhere, if-no-files-found: ignore, typo: 1"),
        fails("e", "upload-artifact", "name: nothing, path: nowhere, if-no-files-found: error"),
        fails("twice", "upload-artifact", "name: dist, path: logs"),
        fails("merge", "upload-artifact/merge", "name: all"),
        fails("name", "upload-artifact", "name: a/b, path: logs"),
        upload("raw", "name: ignored, path: logs/x.txt, archive: false"),
        fails("raw_many", "upload-artifact", "path: dist, archive: false"),
        fails("raw_twice", "upload-artifact", "path: logs/x.txt, archive: false"),
        command("echo log2 > logs/x.txt"),
        upload("raw_again", "path: logs/*.txt, archive: false, overwrite: true"),
        command("echo newer > dist/a.js"),
        upload("again", "path: dist/a.js, overwrite: true"),
    ];
    let second = [
        command("rm -rf dist logs"),
        download("d", "name: dist, path: in"),
        command(
            "test '${{ steps.d.outputs.download-path }}' = \"$PWD/in\"
            test \"$(cd in && find . -type f | sort | tr '\\n' ' ')\" = './a.js ./big ./in/b.js ./sum '
            test \"$(sha256sum in/big | cut -d' ' -f1)\" = \"$(cat in/sum)\"",
        ),
        download("all", "path: all"),
        command(
            "test \"$(ls all | tr '\\n' ' ')\" = 'artifact dist hidden many x.txt ' && test -e all/hidden/.env
            test \"$(cat all/x.txt/x.txt)\" = log2
            test \"$(cat all/artifact/a.js)\" = newer
            test \"$(cd all/many && find . -type f | sort | tr '\\n' ' ')\" = './dist/in/b.js ./dist/in/b.map ./logs/x.txt '",
        ),
        download("p", "pattern: '{many,hid*}', path: both, merge-multiple: true"),
        command("test -e both/dist/in/b.map && test -e both/.env && test ! -e both/many"),
        download("r", "name: x.txt, path: raw"),
        command("test \"$(ls raw)\" = x.txt && test \"$(cat raw/x.txt)\" = log2"),
        fails("none", "download-artifact", "name: nothing"),
        fails("strange", "download-artifact", "name: dist, run-id: 1234567890"),
        // What was made without a mirror, GitHub's own client reads, and the other way around.
        script(
            "const {artifact: found} = await artifact.getArtifact('dist');
            assert.match(found.digest, /^sha256:/);
            const {digestMismatch} = await artifact.downloadArtifact(found.id, {path: 'theirs', expectedHash: found.digest});
            assert.ok(!digestMismatch);
            assert.equal(fs.readFileSync('theirs/in/b.js', 'utf8'), 'two\\n');
            const {artifact: raw} = await artifact.getArtifact('x.txt');
            await artifact.downloadArtifact(raw.id, {path: 'theirs-raw'});
            assert.equal(fs.readFileSync('theirs-raw/x.txt', 'utf8'), 'log2\\n');
            fs.writeFileSync('c.txt', 'by the client');
            const {id} = await artifact.uploadArtifact('client', ['c.txt'], '.');
            core.setOutput('id', id);",
        )
        .replace("      - uses: ./client", "      - id: c\n        uses: ./client"),
        download("c2", "artifact-ids: '${{ steps.c.outputs.id }}', path: ours"),
        command("test \"$(cat ours/c.txt)\" = 'by the client'"),
    ];
    let jobs = [job("one", "", &first), job("two", "    needs: one\n", &second)];
    let out = machines(&|place| write(place, &jobs)).run();
    for expected in [
        "With the provided path, there will be 4 file(s) uploaded",
        "Artifact dist has been successfully uploaded! Final size is ",
        "No files were found with the provided path: nowhere. No artifacts will be uploaded.",
        "the action has no input `typo`",
        "an artifact with the name `dist` already exists",
        "there is no built-in `actions/upload-artifact/merge`",
        "only a single file can be uploaded",
        "an artifact with the name `x.txt` already exists",
        "Artifact not found for name: nothing; the run has: ",
        "knows the artifacts of its own run only",
        "Total of 2 artifact(s) downloaded",
    ] {
        assert!(out.contains(expected), "{expected} not in {out}");
    }
}
