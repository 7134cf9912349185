"""Command lines that `multiview` refuses: arguments, options, documents, stores, names."""

from __future__ import annotations

from tests.bad_input.cases import Command, line

PODS = "--set kubeflow"
NOTHING = "there is nothing; is it the right one?"


def preset(content: str | bytes | None, *says: str) -> Command:
    return Command("multiview config --preset f.yaml", ("f.yaml", *says), {"f.yaml": content})


CASES = {
    # --- words of the command line
    "an unknown command": line("multiview serch a", "serch", "search", "multiview --help"),
    "an unknown option": line("multiview search a --indx b", "--indx", "--index"),
    "an option without its value": line("multiview search a --index", "--index", "argument"),
    "a missing argument": line("multiview lineage", "NAME"),
    "an argument too many": line("multiview search a b", "b", "unexpected"),
    "a question that is not UTF-8": line("multiview search 'a \udcff b' --index s/index/k", "the question is not UTF-8"),
    "a k of nothing": line("multiview search a -k 0", "'-k'", "greater than or equal to 1", "multiview search --help"),
    "a negative k": line("multiview search a -k -5", "'-k'", "greater than or equal to 1"),
    "a k of words": line("multiview search a -k ten", "'-k'", "valid integer"),
    "a port of no machine": line("multiview serve --port 70000", "--port", "65535"),
    "a host that is none": line("multiview serve --index s/index/k --host no.such.host.invalid", "s/index/k"),
    "a negative timeout": line("multiview serve --timeout -1", "--timeout", "greater than or equal to 0.001"),
    "days below zero": line("multiview gc --days -1", "--days", "greater than or equal to 0"),
    "no champion to keep": line("multiview gc --champions 0", "--champions", "greater than or equal to 1"),
    "days that are no number": line("multiview gc --days nan --store s", "--days", "greater than or equal to 0", s=None),
    # --- search, serve
    "no question": line("multiview search", "give one question", "--questions FILE"),
    "a question twice": line("multiview search a --questions q.txt", "give one question", q_txt="a\n"),
    "an empty question": line("multiview search ' '", "the question is empty"),
    "a question that nobody sees": line("multiview search '\u200b'", "the question is empty"),
    "a file of questions that is not there": line("multiview search --questions none.txt --index s/index/k", "none.txt", "no such file"),
    "a folder of questions": line("multiview search --questions q.txt --index s/index/k", "q.txt", "it is no file", q_txt=None),
    "an index that is not there": line("multiview search a --index s/index/k", "no artifact at s/index/k"),
    "an index in no store": line("multiview search a --store nowhere", "nowhere", NOTHING),
    "a champion of no store": line("multiview search a --index champion --store nowhere", "nowhere", NOTHING),
    "a challenger of no store": line("multiview search a --index challenger --store nowhere", "nowhere", NOTHING),
    "a registered model of no form": line("multiview search a --index models:/name", "models:/name", "models:/NAME@ALIAS"),
    "a registered model of no database": line("multiview search a --index models:/name@champion", "MLflow", "--tracking-uri"),
    "a source with a NUL": line(r"""multiview inspect --set 'corpus.source="a\0b"'""", "corpus.source", "NUL character"),
    "a source without a name": line("multiview inspect ''", "named by an empty text"),
    "an empty source": line("""multiview inspect --set 'corpus.source=[""]'""", "one is empty"),
    "a source of no protocol": line("multiview inspect nowhere://x", "nowhere://x"),
    "a source without credentials": line("multiview inspect s3://bucket/p.parquet", "s3://bucket/p.parquet: no access (Unable to locate credentials); credentials come from"),
    "an index that is no run": line("""multiview search a --index "it's" """, "is no run id"),
    "a logged model for an index": line(f"multiview search a --index m-{'0' * 32}", "is a logged model, not an index"),
    "a registered model of another driver": line("multiview search a --index one --tracking-uri 'sqlite+pysqlite:///x.db?timeout=1'", "there is no MLflow"),
    "a run of no store": line("multiview search a --index run-1", "MLflow", "--tracking-uri"),
    "an address beyond its store": line("multiview search a --index s/../../etc/passwd", "s/../../etc/passwd"),
    "an address of slashes": line("multiview search a --index ///", "///"),
    "an address with a NUL": line("multiview search a --index 's/index/\0k'", "s/index"),
    "a server without a champion": line("multiview serve --store nowhere", "nowhere", NOTHING),
    "a server of no index": line("multiview serve --index s/index/k", "no artifact at s/index/k"),
    "keys that are not there": line("multiview serve --api-keys none.txt", "--api-keys none.txt", "cannot be read (No such file or directory)"),
    "a file without a key": line("multiview serve --api-keys k.txt", "k.txt", "no key in it", k_txt="# none\n"),
    "a key of other letters": line("multiview serve --api-keys k.txt", "k.txt", "key 1", "printable ASCII", k_txt="clé\n"),
    "keys that are not UTF-8": line("multiview serve --api-keys k.txt", "k.txt", "not UTF-8", k_txt=b"\xff\n"),
    "a log of questions in no folder": line("multiview serve --index s/index/k --question-log no/log", "--question-log no/log: cannot be written"),
    "a folder of keys": line("multiview serve --api-keys k.txt", "k.txt", "cannot be read", k_txt=None),
    # --- lineage, register, sync, gc
    "a lineage of nothing": line("multiview lineage s/index/k", "no artifact at s/index/k"),
    "a lineage of a damaged record": Command("multiview lineage s/index/k", ("s/index/k", "artifact.json"), {"s/index/k/artifact.json": "{"}),
    "a lineage of a record of another form": Command("multiview lineage s/index/k", ("s/index/k",), {"s/index/k/artifact.json": '{"kind": 5}'}),
    "a lineage of an unknown run": line("multiview lineage run-1 --store s", "MLflow", "--tracking-uri", s=None),
    "a logged model of no database": line(f"multiview lineage m-{'0' * 32}", "MLflow", "--tracking-uri"),
    "a registration of nothing": line("multiview register s/index/k", "no artifact at s/index/k"),
    "a sync of no store": line("multiview sync --store nowhere", "nowhere", NOTHING),
    "a gc of no store": line("multiview gc --store nowhere", "nowhere", "is it the right one"),
    "a gc of another folder": line("multiview gc --delete --store /usr", "/usr", "no run was made in it"),
    "a store that is a file": line("multiview gc --store f", "store f: it is a file", "name a folder", f="x"),
    "a store of an unknown protocol": line("multiview gc --store s4://b/s", "s4://b/s"),
    "a store of the web": line("multiview gc --store https://example.invalid/s", "https://example.invalid/s"),
    "a bucket without a name": line("multiview gc --store s3://", "s3://"),
    "a sync of a damaged run": Command("multiview sync --store s", ("error: r: ", "s/runs/r/run.json is damaged: remove it"), {"s/runs/r/run.json": '{"id": 3'}),
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
        "multiview gc --store s --tracking-uri ftp://host",
        "MLflow at ftp://host: it has no such kind of address",
        "--tracking-uri",
        **{"s/runs/r/x": "x"},
    ),
    # --- config, plan
    "an unknown section": line("multiview config trian", "trian", "train"),
    "an unknown setting": line("multiview config train.epoch", "train.epoch", "epochs"),
    "a preset of JSON": Command("multiview config --preset nested.json", ("no preset 'nested.json'", "ends in .yaml"), {"nested.json": "{}"}),
    "a preset in no folder": line("multiview config --preset no/such", "no preset 'no/such'", "there are"),
    "an unknown preset": line("multiview config --preset deno", "deno", "did you mean demo"),
    "a setting without a value": line("multiview config --set train.epochs", "train.epochs", "SECTION.NAME=VALUE"),
    "a setting without a name": line("multiview config --set =5", "=5", "SECTION.NAME=VALUE"),
    "a section of nothing": line("multiview config --set .epochs=5", ".epochs=5", "SECTION.NAME=VALUE"),
    "a value that is no YAML": line("multiview config --set 'train.epochs={'", "train.epochs", "quote it"),
    "a value of a Python object": line("multiview config --set 'train.epochs=!!python/object/apply:os.getcwd []'", "train.epochs", "quote it"),
    "a value of aliases in a circle": line("multiview config --set 'train.round_two=&a {b: *a}'", "train.round_two", "nested too deeply"),
    "a deep value": line(f"multiview config --set 'train.round_two={'[' * 3000}{']' * 3000}'", "train.round_two", "nested"),
    "a value with a NUL": line("multiview config --set 'model.base=a\0b'", "model.base"),
    "a truth value for a number": line("multiview config --set train.batch_size=true", "train.batch_size: expected a value of another"),
    "a truth value among numbers": line("multiview config --set 'evaluation.at=[1, true]'", "evaluation.at: expected a value of another"),
    "a truth value for a drop": line("multiview config --set 'gate.drops={accuracy_at_20: true}'", "gate.drops: expected a value of another"),
    "a key given twice": line("multiview config --set 'corpus.columns={id: a, id: b}'", "'id' is given twice"),
    "an infinite number": line("multiview config --set train.epochs=.inf", "train.epochs", "finite"),
    "no number": line("multiview config --set train.epochs=.nan", "train.epochs", "nan"),
    "a number beyond any": line("multiview config --set train.epochs=1e999", "train.epochs"),
    "a preset that is not there": line("multiview config --preset none.yaml", "none.yaml", "No such file"),
    "a preset that is a folder": preset(None, "directory"),
    "a preset that is not UTF-8": preset(b"train: {epochs: \xff}", "not UTF-8", "convert the file"),
    "a preset that is no YAML": preset("train: [", "not YAML", "line 1"),
    "a preset of a list": preset("- train", "expected names with values"),
    "a preset of a Python object": preset("train: !!python/object/apply:os.getcwd []", "not YAML"),
    "a preset with a key twice": preset("train: {epochs: 1, epochs: 2}", "'epochs' is given twice"),
    "a preset with an unknown setting": Command("multiview config --preset f.yaml", ("train.epoch", "did you mean epochs"), {"f.yaml": "train: {epoch: 1}"}),
    "a preset over itself": preset("extends: f.yaml", "circle", "f.yaml → f.yaml"),
    "a preset over no presets": preset("extends: [[demo]]", "expected the name of a preset", "a list of them"),
    "a preset with a tab": preset("train:\n\tepochs: 1", "not YAML", "line 2"),
    "a preset with a control character": preset("train: {epochs: '\x07'}", "not YAML"),
    "a deep preset": preset("train: " + "[" * 3000 + "]" * 3000, "nested"),
    **{
        f"a plan of {number} passages": line(f"multiview plan --passages {number}", "--passages", says)
        for number, says in {
            "0": "greater than or equal to 1",
            "-5": "greater than or equal to 1",
            "many": "should be a valid number",
            "nan": "less than or equal to 1000000000000",
            "inf": "less than or equal to 1000000000000",
        }.items()
    },
    "a plan of a share above one": line("multiview plan --passages 1000 --changed 7", "--changed", "less than or equal to 1"),
    "a plan of no memory": line("multiview plan --passages 1000 --memory -1", "--memory", "greater than or equal to 1"),
    "a plan on an unknown GPU": line("multiview plan --passages 1000 --gpus 1 --gpu h1000", "h1000", "h100"),
    "a plan of an unknown pipeline": line("multiview plan --passages 1000 --pipeline trainin", "trainin", "did you mean training"),
    "a plan of an unknown model": line("multiview plan --passages 1000 --model ./none", "./none"),
    "rates of no run": line("multiview plan --passages 1000 --from run-1 --store s", "run-1", s=None),
    "a preset with a day": preset("corpus: {source: 2020-01-01}", "2020-01-01 is a date", "quote it"),
    "a preset with a number in base 8": preset("train: {batch_size: 0100}", "0100 is a number in base 8", "quote it"),
    "a preset with a number in base 60": preset("train: {epochs: 1:30}", "1:30 is a number in base 8 or 60"),
    "a preset with no day": preset("corpus: {source: 2020-13-45}", "month", "quote"),
    "a preset of many aliases": preset(
        "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
        + "".join(
            f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdef", "bcdefg", strict=True)
        ),
        "more than 300,000",
    ),
    "a preset of merges of merges": preset(
        "a0: &a0 {x: 1}\n" + "".join(f"a{n + 1}: &a{n + 1} {{<<: [*a{n}, *a{n}]}}\n" for n in range(40)),
        "more than 300,000",
    ),
    "a preset of many merges": preset(
        "a0: &a0 {x: 1}\n"
        + "".join(f"a{n + 1}: &a{n + 1} {{<<: [*a{n}, *a{n}]}}\n" for n in range(15))
        + f"z: {{<<: [{', '.join(['*a15'] * 4000)}]}}\n",
        "more than 300,000",
    ),
    "a preset with a key that is a list": preset("train: {[a]: 1}", "not YAML"),
    "a preset with a key that is a number": Command("multiview config --preset f.yaml", ("train.5", "expected a name"), {"f.yaml": "train: {5: 1}"}),
    "a preset with a number of 5,000 digits": preset(f"train: {{seed: {'9' * 5000}}}", "digits"),
    "a preset of bytes": preset("corpus: {source: !!binary aGVsbG8=}", "bytes"),
    # --- export
    "an export where nothing can be written": line("multiview export views --out /proc/x --index s/index/k", "--out /proc/x", "nothing can be written"),
    "an export of no index": line("multiview export qdrant --index s/index/k --url http://127.0.0.1:9", "no artifact at s/index/k"),
    "an export of no model": line("multiview export model --model s/model/k --out o", "no artifact at s/model/k"),
    "an encoder of no model": line("multiview export onnx --model s/model/k --out o", "no artifact at s/model/k"),
    # --- repair
    "a repair of nothing": line("multiview repair s/index/k", "no artifact at s/index/k"),
    "a repair of no address": line("multiview repair nowhere", "'nowhere' is no artifact address", "STORE/KIND/KEY"),
    # --- passwords
    "a password in a source": line(
        "multiview inspect --set corpus.source=https://ann:secret@example.org/p.jsonl",
        "corpus.source",
        "https://…@example.org/p.jsonl",
        "holds a password",
        "${NAME}",
    ),
    "a password of two words": line(
        "multiview inspect --set 'corpus.source=https://ann:my secret@example.org/p.jsonl'",
        "https://…@example.org/p.jsonl holds a password",
    ),
    "a password in a system's model": line(
        "multiview config --set comparison.systems='{a: {model: {base: s3://ann:secret@bucket/b}}}'",
        "comparison.systems.a.model.base",
        "holds a password",
    ),
    # --- settings of pods and services
    "pods of a negative number": line(f"multiview config {PODS}.cpu.gpus=-1", "kubeflow.cpu.gpus", "-1"),
    "memory of words": line(f"multiview config {PODS}.cpu.memory=much", "kubeflow.cpu.memory", "much"),
    "a label of spaces": line(f"multiview config {PODS}.cpu.labels='{{a: b c}}'", "kubeflow.cpu.labels", "b c"),
    "nodes for a step that has one": line(f"multiview config {PODS}.steps='{{split: {{nodes: 2}}}}'", "nodes=2", "split"),
    "an affinity without values": line(f"multiview config {PODS}.cpu.node_affinity='[{{key: a}}]'", "takes values"),
    "a webhook that is no address": line("multiview config --set notify.url=hooks.example.org", "notify.url", "http://HOST:PORT"),
    "an MLflow that is no address": line("multiview config --set kubeflow.mlflow_uri=mlflow", "kubeflow.mlflow_uri", "http://HOST:PORT"),
}  # fmt: skip
