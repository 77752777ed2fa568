package gotype

import (
	"encoding/json"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// raw returns a JSON text.
func raw(s string) json.RawMessage { return json.RawMessage(s) }

// input returns the schema that models are told of In, and output that of Out.
func input[In any](t testing.TB) string {
	t.Helper()
	in, err := NewInput[In](nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(in.Told)
}

func output[Out any](t testing.TB) string {
	t.Helper()
	out, err := NewOutput[Out](nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(out.Told)
}

// inputError returns why In can't be read.
func inputError[In any](t testing.TB) string {
	t.Helper()
	_, err := NewInput[In](nil)
	if err == nil {
		t.Fatal("it can be read")
	}
	return err.Error()
}

// given returns the In that arguments become.
func given[In any](t testing.TB, args string) (in In, err error) {
	t.Helper()
	input, err := NewInput[In](nil)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := input.Check.Arguments(raw(args))
	if err != nil {
		return in, err
	}
	v, err := input.Read(doc, nil)
	if err != nil {
		return in, err
	}
	return *v, nil
}

// contains fails the test unless s has all of parts.
func contains(t testing.TB, s string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(s, p) {
			t.Errorf("%q is not in\n%s", p, s)
		}
	}
}

// same fails the test unless got is want.
func same[T comparable](t testing.TB, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func ptr[T any](v T) *T { return &v }
