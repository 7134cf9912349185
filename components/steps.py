"""The component of each step, generated from the step's declaration: KFP compiles a function's source into the
pipeline, and reads its annotations in the pod. `inspect` finds the source in `linecache`, as it does for attrs."""

import linecache
from functools import cache

from kfp import dsl
from kfp.dsl.python_component import PythonComponent

from components import component
from multiview import names
from multiview.steps.step import Step

SOURCE = '''\
def {function}({parameters}) -> str:
    """{about}"""
    given = {{**locals()}}
    from multiview.kubeflow.component import execute

    return execute("{step}", **given)
'''


@cache
def step_component(
    step: Step, there: frozenset[str] = frozenset(), by_shard: bool = False
) -> PythonComponent:
    """Returns the component of a step, which passes its arguments to `multiview.kubeflow.component.execute`. Inputs
    that are `there` before the pipeline runs are texts: addresses, or references as JSON. With `by_shard`, some shards of a list may be."""
    types = {name: f"Input[{artifact_type(name)}]" for name in step.inputs}
    types |= dict.fromkeys(there, "str") | dict.fromkeys(step.list_inputs, "list[str]")
    inputs = [f"{name}: {type_}" for name, type_ in types.items()]
    figures = [names.METRICS] if step.figures_path else []
    outputs = [f"{name}: Output[{artifact_type(name)}]" for name in (*step.outputs, *step.forwards, *figures)]
    shard = [*(["shard: str"] if step.sharded else []), *(["there: str"] if by_shard else [])]
    parameters = ["run: str", *shard, *inputs, *outputs, 'path: str = ""', 'config: str = ""']
    function = step.name.replace("-", "_")
    source = SOURCE.format(
        function=function, parameters=", ".join(parameters), about=step.about, step=step.name
    )
    file = f"<component {step.name}>"
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    namespace = dict(vars(dsl))
    exec(compile(source, file, "exec"), namespace)
    return component(namespace[function], step.gpu)


def artifact_type(name: str) -> str:
    """Returns the class in `kfp.dsl` of an input or an output, for Kubeflow's pages."""
    return names.KFP_TYPES.get(name, "Artifact")
