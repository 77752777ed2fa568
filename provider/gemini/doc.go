// Package gemini is an llm.Model for Google's Gemini API. It stands on Google's own Go SDK.
package gemini
