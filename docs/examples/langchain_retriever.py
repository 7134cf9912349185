"""The search as a retriever of LangChain, over an index that is loaded here."""

from typing import Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

import multiview


class Passages(BaseRetriever):
    index: Any
    k: int = 5

    def _get_relevant_documents(self, query, *, run_manager):
        (hits,) = self.index.search([query], k=self.k)
        more = [
            {**hit.columns, "score": hit.score, "title": hit.title, "snippet": hit.snippet} for hit in hits
        ]
        return [Document(hit.text, id=hit.id, metadata=each) for hit, each in zip(hits, more, strict=True)]


retriever = Passages(index=multiview.load("champion", store="store", follow=True))
for document in retriever.invoke("When did the lighthouse stop burning oil?"):
    print(document.metadata["score"], document.id, document.metadata["snippet"])
