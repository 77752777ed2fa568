// Package anthropic is an [llm.Model] for Anthropic's Messages API. It stands
// on Anthropic's own Go SDK, which speaks version 2026-10-21 of the API.
//
// What only Anthropic understands is kept in the parts' [llm.Native] form, with
// the provider "anthropic", and goes back byte for byte: the signatures of
// reasoning, redacted reasoning, citations, and what Anthropic's own tools did.
//
// It is for the Messages API alone: no batches, no files, no Bedrock or Vertex
// endpoints.
package anthropic
