//! Who may ask who a job is, and what the token of a job opens.

use super::{Machines, command, job, script, write};

const MAY: &str = "    permissions: {id-token: write, contents: read, actions: read}\n";

/// Looks for the words of whoever is named in a file, and asks with them, in the name of their tree.
const THIEF: &str = r#"
end=$((SECONDS + 60))
while [ $SECONDS -lt $end ]; do
  for environ in /proc/[0-9]*/environ; do
    all=$(tr '\0' '\n' < $environ 2>/dev/null)
    url=$(echo "$all" | sed -n 's/^ACTIONS_ID_TOKEN_REQUEST_URL=//p')
    [ -n "$url" ] && grep -qxF "$url" "$1" 2>/dev/null || continue
    word=$(echo "$all" | sed -n 's/^ACTIONS_ID_TOKEN_REQUEST_TOKEN=//p')
    export KILN_TREE=$(echo "$all" | sed -n 's/^KILN_TREE=//p')
    curl -s -o /dev/null -w '%{http_code}' -H "Authorization: Bearer $word" "$url&audience=evil" > "$2.new"
    mv "$2.new" "$2"
    exit
  done
  sleep 0.1
done
"#;

/// PEERS 19: a process that an earlier step left reads the words of a later one in `/proc`, and hears no.
pub(crate) fn a_word_that_was_read_from_another_step_is_good_for_nothing(machines: Machines<'_>) {
    let thief = command(
        "setsid bash thief.sh \"$RUNNER_TEMP/where\" \"$RUNNER_TEMP/stolen\" > /dev/null 2>&1 &",
    );
    let victim = script(
        "const {execFileSync} = await import('node:child_process');
        const url = process.env.ACTIONS_ID_TOKEN_REQUEST_URL;
        const stolen = `${process.env.RUNNER_TEMP}/stolen`;
        fs.writeFileSync(`${process.env.RUNNER_TEMP}/where`, url + '\\n');
        for (let tries = 0; !fs.existsSync(stolen) && tries < 500; tries++) await new Promise(done => setTimeout(done, 100));
        assert.equal(fs.readFileSync(stolen, 'utf8'), '403', 'the thief heard no');
        assert.ok((await core.getIDToken('https://one.example')).split('.').length === 3);
        const ask = `fetch(process.env.ACTIONS_ID_TOKEN_REQUEST_URL + '&audience=two', {headers: {authorization: 'Bearer ' + process.env.ACTIONS_ID_TOKEN_REQUEST_TOKEN}}).then(answer => console.log('answer', answer.status))`;
        const child = execFileSync(process.execPath, ['-e', ask], {encoding: 'utf8'});
        assert.match(child, /answer 200/, 'those that it started itself are part of it');
        const hash = (await import('node:crypto')).createHash('sha256').update(process.env.ACTIONS_ID_TOKEN_REQUEST_TOKEN).digest('hex');
        fs.writeFileSync('hash', hash);",
    );
    let later = script(
        "const hash = (await import('node:crypto')).createHash('sha256').update(process.env.ACTIONS_ID_TOKEN_REQUEST_TOKEN).digest('hex');
        assert.notEqual(hash, fs.readFileSync('hash', 'utf8'), 'each step has its own');
        await core.getIDToken('three');",
    );
    let out = machines(&|place| {
        write(place, &[job("one", MAY, &[thief.clone(), victim.clone(), later.clone()])]);
        place.file("thief.sh", THIEF);
    })
    .run();
    for audience in ["https://one.example", "two", "three"] {
        let line = format!(
            "An identity token was issued to this step: audience `{audience}`, subject `repo:"
        );
        assert!(out.contains(&line), "{line} not in {out}");
    }
    assert!(!out.contains("audience `evil`"), "{out}");
}

/// P9, R9: the same question, answered by `kiln run` itself and by a server.
pub(crate) fn the_token_of_a_job_opens_its_repository(machines: Machines<'_>) {
    let step = script(
        "const ask = (path, method = 'GET') => fetch(`${process.env.GITHUB_API_URL}${path}`, {method, headers: {authorization: `token ${token}`}});
        const own = `/repos/${process.env.GITHUB_REPOSITORY}`;
        const found = await (await ask(own)).json();
        assert.equal(found.default_branch, 'main');
        assert.equal(found.full_name, process.env.GITHUB_REPOSITORY);
        assert.equal((await ask('/repos/somebody/else')).status, 404);
        fs.writeFileSync('a.txt', 'hello');
        await artifact.uploadArtifact('report', ['a.txt'], '.');
        const listed = await (await ask(`${own}/actions/runs/${process.env.GITHUB_RUN_ID}/artifacts`)).json();
        assert.equal(listed.artifacts[0].name, 'report');
        const {id} = listed.artifacts[0];
        assert.equal((await ask(`${own}/actions/artifacts/${id}`, 'DELETE')).status, 403, 'it may only read');
        assert.ok([403, 404].includes((await ask('/user')).status));
        const nobody = await fetch(`${process.env.GITHUB_API_URL}${own}`, {headers: {authorization: 'token x'}});
        assert.equal(nobody.status, 401);",
    );
    machines(&|place| write(place, &[job("one", MAY, std::slice::from_ref(&step))])).run();
}
