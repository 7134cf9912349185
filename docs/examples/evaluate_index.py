"""Another team's pipeline: an index of ours, or our champion, measured on their questions.

docs/kubeflow.md, "Components in other pipelines", writes the components that it loads.
"""

from pathlib import Path

from kfp import components, dsl

FOLDER = Path("components-yaml")


def pipeline(folder: Path = FOLDER):
    """Returns the pipeline, with components from a folder."""
    names = ("open-index", "split-again", "evaluate")
    open_index, split_again, evaluate = (
        components.load_component_from_file(str(folder / f"{name}.yaml")) for name in names
    )

    @dsl.pipeline(name="our-questions")
    def our_questions(store: str, index: str, questions: str):
        """Measures an index on our questions.

        Args:
            store: Address of the store that the results go to.
            index: Address of the index, or of our store: then it is the champion's.
            questions: File, folder or URL of the questions.
        """
        opened = open_index(address=index).set_caching_options(False)  # another champion, one of these days
        data = split_again(
            run=store,
            known=opened.outputs["passages"],
            config=f"corpus.source={opened.outputs['Output']}; questions.dev_source={questions}",
        ).set_caching_options(False)  # nor does KFP know what is in a source
        evaluate(
            run=store,
            config="evaluation.depth=20; evaluation.analyses=[]",
            model=opened.outputs["model"],
            index=opened.outputs["index"],
            passages=opened.outputs["passages"],
            questions=data.outputs["dev_questions"],
            train_questions=data.outputs["train_questions"],
        ).set_caching_options(False)

    return our_questions


if __name__ == "__main__":
    from kfp import compiler

    compiler.Compiler().compile(pipeline(), "our-questions.yaml")
