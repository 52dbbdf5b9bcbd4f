"""What people do with PyGithub, with a server of Kiln. Each step asserts what it sees."""
import io
import os
import time
import zipfile

import requests
from github import Auth, BadCredentialsException, Github, GithubException, UnknownObjectException

CA = os.environ["CA"]
github = Github(auth=Auth.Token(os.environ["TOKEN"]), base_url=os.environ["BASE"], verify=CA, retry=None, seconds_between_requests=0, seconds_between_writes=0, per_page=2)


def ended(repo, number):
    while True:
        run = repo.get_workflow_run(number)
        if run.status == "completed":
            return run
        time.sleep(0.1)


def newest(repo):
    return repo.get_workflow_runs()[0]


# Who, and what there is.
assert github.get_user().login == "admin"
repo = github.get_repo("acme/app")
assert (repo.full_name, repo.default_branch, repo.private) == ("acme/app", "main", True)
assert sorted(it.name for it in github.get_user().get_repos()) == ["app", "first"]
organization = github.get_organization("acme")
assert sorted(it.name for it in organization.get_repos()) == ["app", "first"]
runner = repo.get_self_hosted_runners()[0]
assert (runner.name, runner.status) == ("one", "online")
assert repo.get_secrets().totalCount == 0 and repo.get_variables().totalCount == 0

# A dispatch, watched to its end.
head = repo.get_workflow_runs()
assert head.totalCount == 1
workflow = repo.get_workflow("ci.yml")
assert workflow.name == "CI" and workflow.state == "active"
assert workflow.create_dispatch("main", {"mode": "good"})
first = ended(repo, newest(repo).id)
assert (first.conclusion, first.event, first.head_branch) == ("success", "workflow_dispatch", "main")

# Its jobs, logs and artifacts.
job = first.jobs()[0]
assert (job.name, job.conclusion) == ("build", "success")
assert any(step.name == "Say" for step in job.steps)
# The address of a log needs no token, for a while.
log = requests.get(job.logs_url(), verify=CA)
assert log.status_code == 200 and "hello from kiln" in log.text, log.text
assert requests.get(job.logs_url().replace("signature=", "signature=x"), verify=CA).status_code == 404
headers = {"Authorization": "Bearer " + os.environ["TOKEN"]}
assert requests.get(first.logs_url, verify=CA).status_code == 401
logs = zipfile.ZipFile(io.BytesIO(requests.get(first.logs_url, headers=headers, verify=CA).content))
assert logs.testzip() is None
names = logs.namelist()
assert "0_build.txt" in names and any(name.startswith("build/") and name.endswith("_Say.txt") for name in names), names
assert b"hello from kiln" in logs.read("0_build.txt")
artifact = first.get_artifacts()[0]
assert artifact.name == "dist"
dist = zipfile.ZipFile(io.BytesIO(requests.get(artifact.archive_download_url, headers=headers, verify=CA).content))
assert dist.read("hello.txt") == b"hello\n", dist.namelist()

# A failure, run again; and a run that is cancelled.
assert workflow.create_dispatch("main", {"mode": "bad"})
bad = ended(repo, newest(repo).id)
assert bad.conclusion == "failure"
assert bad.rerun()
bad = ended(repo, bad.id)
assert (bad.run_attempt, bad.conclusion) == (2, "failure")
assert bad.rerun_failed_jobs()
assert ended(repo, bad.id).run_attempt == 3
assert workflow.create_dispatch("main", {"mode": "slow"})
slow = newest(repo)
while not any(job.status == "in_progress" for job in repo.get_workflow_run(slow.id).jobs()):
    time.sleep(0.1)
assert slow.cancel()
assert ended(repo, slow.id).conclusion == "cancelled"

# Filters and pages: PyGithub follows the links.
assert [it.id for it in repo.get_workflow_runs(event="workflow_dispatch")] == [slow.id, bad.id, first.id]
assert [it.id for it in repo.get_workflow_runs(status="success", event="workflow_dispatch")] == [first.id]
assert repo.get_workflow_runs(created="<2020-01-01").totalCount == 0
assert len(list(workflow.get_runs())) == 4

# What is not there, and what is refused.
try:
    github.get_repo("acme/none")
    raise AssertionError("there is no such repository")
except UnknownObjectException as error:
    assert error.status == 404 and "no such repository" in str(error)
try:
    Github(auth=Auth.Token("kpat_wrong"), base_url=os.environ["BASE"], verify=CA, retry=None).get_user().login
    raise AssertionError("nobody has this token")
except BadCredentialsException as error:
    assert error.status == 401
try:
    workflow.create_dispatch("nowhere", throw=True)
    raise AssertionError("there is no such branch")
except GithubException as error:
    assert error.status == 422, error
assert artifact.delete()
assert first.get_artifacts().totalCount == 0
assert repo.remove_self_hosted_runner(runner)
print("all is well")
