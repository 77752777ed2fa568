// Package openai is an [llm.Model] for OpenAI, by either of its APIs, on
// OpenAI's own Go SDK: [NewResponses] for OpenAI itself, where the model's
// reasoning goes along, encrypted; and [NewChat] for Chat Completions, which
// Ollama, vLLM, OpenRouter and many other servers speak, each in its own way.
// What they share is in options.go, client.go, reading.go, events.go,
// failure.go and schema.go; the other files begin with the API's name.
//
// What only the server understands is kept in the parts' [llm.Native] form,
// under the provider "openai.responses" or "openai.chat", the latter with the
// host of a compatible server behind it, and goes back to that one alone.
//
// The SDK makes the requests. It reads no reply of Chat Completions: compatible
// servers differ too much from its types; see chatwire.go. Of Responses it
// reads the items, and none of the pieces.
package openai
