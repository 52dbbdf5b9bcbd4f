//! The scenarios. Their scripts check themselves: a step that finds something wrong fails its job.

use super::{Machines, command, job, script, write};

pub(crate) use super::built_in::{
    a_second_save_of_a_built_in_cache_moves_only_what_changed,
    the_built_in_cache_does_what_its_inputs_say,
};

pub(crate) use super::built_in_artifacts::artifacts_go_from_job_to_job_without_a_mirror;
pub(crate) use super::identity::{
    a_word_that_was_read_from_another_step_is_good_for_nothing,
    the_token_of_a_job_opens_its_repository,
};

fn run_all(machines: Machines<'_>, jobs: &[String]) -> String {
    machines(&|place| write(place, jobs)).run()
}

/// R8
pub(crate) fn caches_are_found_by_key_and_by_beginning_and_never_change(machines: Machines<'_>) {
    let first = script(
        "assert.equal(await cache.restoreCache(['deps'], 'linux-1', ['linux-']), undefined);
        assert.ok(cache.isFeatureAvailable());
        const sum = write('deps/a.bin', 200_000);
        core.saveState('sum', sum);
        assert.ok(await cache.saveCache(['deps'], 'linux-1') > 0);
        remove('deps');
        assert.equal(await cache.restoreCache(['deps'], 'linux-1'), 'linux-1');
        assert.equal(sha256('deps/a.bin'), sum);
        assert.equal(await cache.restoreCache(['elsewhere'], 'linux-1'), undefined, 'other paths are another version');
        write('deps/a.bin', 10);
        assert.equal(await cache.saveCache(['deps'], 'linux-1'), -1, 'a key is written once');",
    );
    let second = script(
        "assert.equal(await cache.restoreCache(['deps'], 'linux-2', ['mac-', 'linux-']), 'linux-1');
        assert.equal(fs.statSync('deps/a.bin').size, 200_000);
        assert.equal(await cache.restoreCache(['deps'], 'lin'), 'linux-1', 'the key itself is a beginning, too');
        assert.equal(await cache.restoreCache(['deps'], 'mac-1', ['mac-']), undefined);
        write('deps/b.bin', 5_000_000);
        assert.ok(await cache.saveCache(['deps'], 'linux-2') > 0);
        remove('deps');
        assert.equal(await cache.restoreCache(['deps'], 'linux-3', ['linux-'], {lookupOnly: true}), 'linux-2', 'the newest');
        assert.ok(!fs.existsSync('deps'), 'it was only looked up');",
    );
    let out =
        run_all(machines, &[job("one", "", &[first]), job("two", "    needs: one\n", &[second])]);
    assert!(out.contains("another job may be creating this cache"), "{out}");
}

/// R8
pub(crate) fn a_cache_is_there_in_the_next_run(machines: Machines<'_>) {
    let step = script(
        "const found = await cache.restoreCache(['deps'], 'key');
        console.log(`found ${found}`);
        if (!found) {
          write('deps/a', 1000);
          assert.ok(await cache.saveCache(['deps'], 'key') > 0);
        } else {
          assert.equal(fs.statSync('deps/a').size, 1000);
        }",
    );
    let machine = machines(&|place| write(place, &[job("one", "", std::slice::from_ref(&step))]));
    let first = machine.run();
    assert!(first.contains("found undefined"), "{first}");
    let second = machine.run();
    assert!(second.contains("found key"), "{second}");
}

/// R8
pub(crate) fn clients_of_the_first_version_of_caches_work_as_well(machines: Machines<'_>) {
    let first = script(
        "delete process.env.ACTIONS_CACHE_SERVICE_V2;
        assert.equal(await cache.restoreCache(['deps'], 'k-1', ['k-']), undefined);
        const sum = write('deps/a.bin', 70_000_000);
        assert.ok(await cache.saveCache(['deps'], 'k-1') > 0);
        assert.equal(await cache.saveCache(['deps'], 'k-1'), -1);
        remove('deps');
        assert.equal(await cache.restoreCache(['deps'], 'k-2', ['x', 'k-']), 'k-1');
        assert.equal(sha256('deps/a.bin'), sum);
        process.env.ACTIONS_CACHE_SERVICE_V2 = 'True';
        remove('deps');
        assert.equal(await cache.restoreCache(['deps'], 'k-1'), 'k-1', 'the second version finds it');
        assert.equal(sha256('deps/a.bin'), sum);",
    );
    run_all(machines, &[job("one", "", &[first])]);
}

/// R8
pub(crate) fn a_large_cache_goes_both_ways(machines: Machines<'_>) {
    let step = script(
        "const sum = write('deps/large.bin', 150 << 20);
        assert.ok(await cache.saveCache(['deps'], 'large') > 0);
        remove('deps');
        assert.equal(await cache.restoreCache(['deps'], 'large'), 'large');
        assert.equal(sha256('deps/large.bin'), sum);",
    );
    run_all(machines, &[job("one", "", &[step])]);
}

/// R5
pub(crate) fn artifacts_are_uploaded_listed_downloaded_replaced_and_deleted(
    machines: Machines<'_>,
) {
    let first = script(
        "write('out/one.bin', 300_000);
        fs.writeFileSync('out/two.txt', 'two');
        const up = await artifact.uploadArtifact('build', ['out/one.bin', 'out/two.txt'], 'out', {retentionDays: 1});
        assert.ok(up.id > 0 && up.size > 0 && up.digest.length === 64);
        await assert.rejects(artifact.uploadArtifact('build', ['out/two.txt'], 'out'), /409/);
        await assert.rejects(artifact.uploadArtifact('a/b', ['out/two.txt'], 'out'), /not valid/);
        const {artifact: found} = await artifact.getArtifact('build');
        assert.equal(found.id, up.id);
        assert.equal(found.digest, `sha256:${up.digest}`);
        fs.writeFileSync('out/raw.txt', 'just a file');
        const raw = await artifact.uploadArtifact('ignored', ['out/raw.txt'], 'out', {skipArchive: true});
        assert.ok(raw.id > up.id);
        await artifact.uploadArtifact('gone', ['out/two.txt'], 'out');
        const gone = await artifact.deleteArtifact('gone');
        assert.ok(gone.id > 0);
        await assert.rejects(artifact.getArtifact('gone'));
        await assert.rejects(artifact.deleteArtifact('gone'));
        fs.writeFileSync('out/two.txt', 'first');
        await artifact.uploadArtifact('again', ['out/two.txt'], 'out');
        await artifact.deleteArtifact('again');
        fs.writeFileSync('out/two.txt', 'second');
        await artifact.uploadArtifact('again', ['out/two.txt'], 'out');",
    );
    let second = script(
        "const {artifacts} = await artifact.listArtifacts();
        assert.deepEqual(artifacts.map(it => it.name).sort(), ['again', 'build', 'raw.txt']);
        const by = name => artifacts.find(it => it.name === name);
        const down = await artifact.downloadArtifact(by('build').id, {path: 'in', expectedHash: by('build').digest});
        assert.equal(down.digestMismatch, false);
        assert.equal(fs.readFileSync('in/two.txt', 'utf8'), 'two');
        assert.equal(fs.statSync('in/one.bin').size, 300_000);
        await artifact.downloadArtifact(by('again').id, {path: 'in2'});
        assert.equal(fs.readFileSync('in2/two.txt', 'utf8'), 'second');
        await artifact.downloadArtifact(by('raw.txt').id, {path: 'in3'});
        assert.equal(fs.readFileSync('in3/raw.txt', 'utf8'), 'just a file');",
    );
    // With `findBy`, the clients go by REST.
    let third = script(
        "const [repositoryOwner, repositoryName] = process.env.GITHUB_REPOSITORY.split('/');
        const findBy = {token, workflowRunId: Number(process.env.GITHUB_RUN_ID), repositoryOwner, repositoryName};
        const {artifacts} = await artifact.listArtifacts({findBy});
        assert.equal(artifacts.length, 3);
        const {artifact: found} = await artifact.getArtifact('again', {findBy});
        await artifact.downloadArtifact(found.id, {path: 'in4', findBy});
        assert.equal(fs.readFileSync('in4/two.txt', 'utf8'), 'second');
        await assert.rejects(artifact.listArtifacts({findBy: {...findBy, token: 'another'}}));
        await assert.rejects(artifact.listArtifacts({findBy: {...findBy, repositoryName: 'another'}}));",
    );
    run_all(
        machines,
        &[
            job("one", "", &[first]),
            job("two", "    needs: one\n", &[second]),
            job("three", "    needs: two\n", &[third]),
        ],
    );
}

/// R5
pub(crate) fn a_large_artifact_goes_both_ways(machines: Machines<'_>) {
    let first = script(
        "const sum = write('out/large.bin', 150 << 20);
        await artifact.uploadArtifact('large', ['out/large.bin'], 'out', {compressionLevel: 0});
        fs.writeFileSync('out/sum', sum);
        await artifact.uploadArtifact('sum', ['out/sum'], 'out');",
    );
    let second = script(
        "for (const name of ['large', 'sum']) {
          const {artifact: found} = await artifact.getArtifact(name);
          await artifact.downloadArtifact(found.id, {path: 'in', expectedHash: found.digest});
        }
        assert.equal(sha256('in/large.bin'), fs.readFileSync('in/sum', 'utf8'));",
    );
    let jobs = [job("one", "", &[first]), job("two", "    needs: one\n", &[second])];
    run_all(machines, &jobs);
}

/// R5, R8
pub(crate) fn jobs_side_by_side_do_not_disturb_each_other(machines: Machines<'_>) {
    let save = script(
        "const name = `part-${process.env.PART}`;
        write(`out/${name}`, 3_000_000);
        const both = await Promise.all([
          artifact.uploadArtifact(name, [`out/${name}`], 'out'),
          cache.saveCache([`out/${name}`], name),
        ]);
        assert.ok(both[0].id > 0 && both[1] > 0);
        write('shared/file', 1_000_000);
        await cache.saveCache(['shared'], 'shared');",
    );
    let matrix =
        "    strategy: {matrix: {part: [a, b, c]}}\n    env: {PART: '${{ matrix.part }}'}\n";
    let check = script(
        "const {artifacts} = await artifact.listArtifacts();
        assert.deepEqual(artifacts.map(it => it.name).sort(), ['part-a', 'part-b', 'part-c']);
        assert.equal(await cache.restoreCache(['shared'], 'shared'), 'shared');
        assert.equal(sha256('shared/file'), write('again', 1_000_000, 'shared/file'));",
    );
    run_all(machines, &[job("save", matrix, &[save]), job("check", "    needs: save\n", &[check])]);
}

/// R7
pub(crate) fn a_job_can_say_who_it_is_if_it_may(machines: Machines<'_>) {
    let may = script(
        "const jwt = await core.getIDToken('https://cloud.example');
        const [header, claims] = jwt.split('.').slice(0, 2).map(part => JSON.parse(Buffer.from(part, 'base64url')));
        assert.equal(claims.aud, 'https://cloud.example');
        assert.equal(claims.sub, `repo:${process.env.GITHUB_REPOSITORY}:ref:refs/heads/main`);
        assert.equal(claims.repository, process.env.GITHUB_REPOSITORY);
        assert.equal(claims.sha, process.env.GITHUB_SHA);
        assert.ok(claims.exp - claims.iat <= 900 && claims.iat <= Date.now() / 1000 + 5);
        const about = await (await fetch(`${claims.iss}/.well-known/openid-configuration`)).json();
        assert.equal(about.issuer, claims.iss);
        const {keys} = await (await fetch(about.jwks_uri)).json();
        const key = crypto.createPublicKey({key: keys.find(key => key.kid === header.kid), format: 'jwk'});
        const [text, signature] = [jwt.slice(0, jwt.lastIndexOf('.')), jwt.slice(jwt.lastIndexOf('.') + 1)];
        assert.ok(crypto.verify('sha256', Buffer.from(text), key, Buffer.from(signature, 'base64url')));
        const usual = await core.getIDToken();
        assert.ok(JSON.parse(Buffer.from(usual.split('.')[1], 'base64url')).aud.endsWith(`/${process.env.GITHUB_REPOSITORY_OWNER}`));
        const refused = await fetch(`${process.env.ACTIONS_ID_TOKEN_REQUEST_URL}&audience=x`, {headers: {authorization: 'Bearer x'}});
        assert.equal(refused.status, 401);
        console.log('it has ' + jwt);",
    );
    let may_not = script(
        "await assert.rejects(core.getIDToken('x'), /ACTIONS_ID_TOKEN_REQUEST_URL/);
        const url = `${process.env.ACTIONS_RESULTS_URL}oidc/token?api-version=2.0&audience=x`;
        const refused = await fetch(url, {headers: {authorization: `Bearer ${process.env.ACTIONS_RUNTIME_TOKEN}`}});
        assert.equal(refused.status, 403);",
    );
    let out = run_all(
        machines,
        &[
            job("may", "    permissions: {id-token: write, contents: read}\n", &[may]),
            job("may-not", "    permissions: {contents: read}\n", &[may_not]),
        ],
    );
    assert!(out.contains("it has ***"), "clients mask it: {out}");
}

/// P9, R7
pub(crate) fn only_actions_have_the_tokens_and_only_as_long_as_their_job_lasts(
    machines: Machines<'_>,
) {
    let scripts_do_not = command("! env | grep ^ACTIONS_");
    let first = script(
        "const known = Object.keys(process.env).filter(name => name.startsWith('ACTIONS_')).sort();
        assert.deepEqual(known, ['ACTIONS_CACHE_SERVICE_V2', 'ACTIONS_CACHE_URL', 'ACTIONS_RESULTS_URL', 'ACTIONS_RUNTIME_TOKEN', 'ACTIONS_RUNTIME_URL']);
        console.log('the token is ' + process.env.ACTIONS_RUNTIME_TOKEN);
        const call = (token, method) => fetch(`${process.env.ACTIONS_RESULTS_URL}twirp/github.actions.results.api.v1.CacheService/${method}`, {
          method: 'POST', body: JSON.stringify({key: 'k', version: 'v'}),
          headers: {authorization: `Bearer ${token}`, 'content-type': 'application/json'}});
        assert.equal((await call('x', 'GetCacheEntryDownloadURL')).status, 401);
        assert.equal((await call(process.env.ACTIONS_RUNTIME_TOKEN, 'Nothing')).status, 404);
        const made = await (await call(process.env.ACTIONS_RUNTIME_TOKEN, 'CreateCacheEntry')).json();
        const put = await fetch(made.signed_upload_url, {method: 'PUT', body: 'half of it'});
        assert.equal(put.status, 201);
        assert.equal((await fetch(made.signed_upload_url)).status, 404, 'it is for writing');
        assert.equal((await fetch(made.signed_upload_url.replace(/.$/, 'x'), {method: 'PUT', body: 'x'})).status, 404);
        const found = await (await call(process.env.ACTIONS_RUNTIME_TOKEN, 'GetCacheEntryDownloadURL')).json();
        assert.equal(found.ok, false, 'it is not complete');
        core.setOutput('url', process.env.ACTIONS_RESULTS_URL);
        fs.writeFileSync(process.env.GITHUB_STEP_SUMMARY, 'x');
        const name = Buffer.from(process.env.ACTIONS_RESULTS_URL).toString('hex');
        fs.writeFileSync('where', name);
        await artifact.uploadArtifact('where', ['where'], '.');",
    );
    let second = script(
        "const {artifact: found} = await artifact.getArtifact('where');
        await artifact.downloadArtifact(found.id, {path: 'in'});
        const url = Buffer.from(fs.readFileSync('in/where', 'utf8'), 'hex').toString();
        assert.notEqual(url, process.env.ACTIONS_RESULTS_URL);
        await assert.rejects(fetch(url), 'the gateway of the first job is gone');",
    );
    let out = run_all(
        machines,
        &[job("one", "", &[scripts_do_not, first]), job("two", "    needs: one\n", &[second])],
    );
    assert!(out.contains("the token is ***"), "{out}");
}
