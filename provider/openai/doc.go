// Package openai is an llm.Model for OpenAI: Chat Completions, which many compatible servers speak too, and Responses. It stands on OpenAI's own Go SDK.
package openai
