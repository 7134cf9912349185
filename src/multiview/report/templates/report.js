"use strict";
const form = document.querySelector("form.filter");
if (form) {
  const questions = [...document.querySelectorAll("details.question")].map((element) => ({
    element,
    outcomes: element.dataset.outcome.split(" "),
    text: null,
  }));
  const output = form.querySelector("output");
  const show = () => {
    const wanted = form.elements.outcome.value.replace(" ", "-");
    const words = form.elements.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const question of questions) {
      if (words.length) question.text ??= question.element.textContent.toLowerCase();
      const fits =
        (!wanted || question.outcomes.includes(wanted)) &&
        words.every((word) => question.text.includes(word));
      question.element.hidden = !fits;
      shown += fits;
    }
    output.textContent = `${shown} of ${questions.length} shown`;
  };
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", show);
  show();
}
