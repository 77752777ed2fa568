package webhook

import (
	"encoding/json"
	"errors"

	"github.com/fermata-ai/fermata/internal/schema"
)

// The bodies that are not a tool's output. They have schemas, since Go's
// decoder alone stops at the first fault: a sender is told of each, as for an
// output.
var (
	failBody = mustCompile(
		`{"type":"object","properties":{"message":{"type":"string"},` +
			`"retryable":{"type":"boolean"}},"additionalProperties":false}`)
	// reasonBody is of cancel, approve and deny.
	reasonBody = mustCompile(
		`{"type":"object","properties":{"reason":{"type":"string"}},"additionalProperties":false}`)

	progressBody = mustCompile(
		`{"type":"object","properties":{"message":{"type":"string"},` +
			`"fraction":{"type":"number","minimum":0,"maximum":1},"data":{}},` +
			`"additionalProperties":false}`)
)

var eventBody = mustCompile(
	`{"type":"object","properties":{"name":{"type":"string"},"id":{"type":"string"},` +
		`"payload":{}},"required":["payload"],"additionalProperties":false}`)

var (
	errEmptyProgress = errors.New("the body is empty, and tells of no progress")
	errEmptyEvent    = errors.New("the body is empty, and has no event")
	errNoName        = errors.New("the event has no name")
)

func mustCompile(text string) *schema.Schema {
	s, err := schema.Compile(json.RawMessage(text))
	if err != nil {
		panic(err) // at start, and in each test
	}
	return s
}

// The forms in which events of others come. What else they have is theirs.
var (
	anyJSON    = mustCompile(`{}`)
	cloudEvent = mustCompile(`{"type":"object","properties":{"specversion":{"const":"1.0"},` +
		`"id":{"type":"string","minLength":1},"type":{"type":"string","minLength":1},` +
		`"source":{"type":"string","minLength":1},"subject":{"type":"string"},` +
		`"time":{"type":"string"},"data_base64":{"type":"string"}},` +
		`"required":["specversion","id","type","source"],"not":{"required":["data","data_base64"]}}`)

	notification = mustCompile(`{"type":"object","properties":{"Type":{"type":"string"},` +
		`"MessageId":{"type":"string"},"TopicArn":{"type":"string"},"Subject":{"type":"string"},` +
		`"Timestamp":{"type":"string"},"Message":{"type":"string"}},` +
		`"required":["Type","MessageId","Message"]}`)
)
