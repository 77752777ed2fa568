// Package anthropic is an llm.Model for Anthropic's Messages API. It stands on Anthropic's own Go SDK.
package anthropic
