// Package modeltext is text and JSON as models write and read them: what no
// provider parses is replaced, what a model wrote for a call's arguments
// becomes a value or an error that it can act on, and JSON is told to a model
// as a person would write it.
//
// It knows nothing of messages; package llm and its adapters do.
package modeltext
