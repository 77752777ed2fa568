// Package gemini is an llm.Model for Google's Gemini API. It stands on Google's
// own Go SDK.
//
// The SDK makes the request: its address, headers, key and retries; and it
// reads the service's errors. It does not read the model's messages, since it
// decodes a call's arguments into float64, which rounds big integers, and a
// stream that is not as it expects makes it panic. So the reply's body is taken
// from under it, and read here; see exchange.go. For the same reason, contents
// and schemas enter the request as the JSON that they are.
//
// What the model signed is kept in Native and goes back byte for byte, in the
// place where it was. Calls that another provider's model made get the
// signature that Google documents for them, where Gemini 3 would refuse the
// request otherwise.
//
// Gemini caches by itself, and can't be told otherwise for one request:
// [llm.Request.Cache] changes nothing.
package gemini
