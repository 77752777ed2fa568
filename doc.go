// Package fermata is the root of a library for tool calls of AI agents that have to wait: for a deployment, a batch job, an
// approval, an answer. It holds no code; start with these packages:
//
//   - tool: a typed Go function as a tool. It returns Done, Pending or NeedInput.
//   - agent: a model, instructions, tools, interceptors and limits.
//   - runner: Run, Resume, Progress, Cancel and Work, over a session.Store.
//   - kvstore/bolt: the store, embedded in the process.
//   - webhook: the HTTP handler by which outside systems answer.
//   - fakellm: a scripted model for tests.
//
// The README has a whole program.
package fermata
