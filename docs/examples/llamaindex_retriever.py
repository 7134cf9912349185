"""The search as a retriever of LlamaIndex, over a server."""

import requests
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode


class Passages(BaseRetriever):
    def __init__(self, url, key="", k=5):
        super().__init__()
        self.url, self.headers, self.k = url, {"X-API-Key": key}, k

    def _retrieve(self, query_bundle):
        body = {"questions": [query_bundle.query_str], "k": self.k}
        answer = requests.post(f"{self.url}/search", json=body, headers=self.headers, timeout=30)
        answer.raise_for_status()
        hits = answer.json()["answers"][0]["hits"]
        more = [{**hit["columns"], "title": hit["title"], "snippet": hit["snippet"]} for hit in hits]
        nodes = [
            TextNode(id_=hit["id"], text=hit["text"], metadata=each)
            for hit, each in zip(hits, more, strict=True)
        ]
        return [NodeWithScore(node=node, score=hit["score"]) for node, hit in zip(nodes, hits, strict=True)]


for found in Passages("http://localhost:8080", "a key, if the server asks for one").retrieve("Who built it?"):
    print(found.score, found.node_id, found.metadata["snippet"])
