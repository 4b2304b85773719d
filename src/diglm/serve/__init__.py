"""Models behind HTTP: a service that batches, and a page to try a model by hand.

```
request ─▶ guard ─▶ body ─▶ rows ─▶ batcher ─▶ one pass for many requests ─▶ columns ─▶ JSON
```
"""
