package tool

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// raw returns a JSON text.
func raw(s string) json.RawMessage { return json.RawMessage(s) }

// call returns a call with arguments.
func call(args string) Call { return Call{ID: "c1", Tool: "t", Arguments: raw(args)} }

// make1 returns a tool called t of a function.
func make1[In, Out any](t testing.TB, f func(context.Context, In) (Result[Out], error)) Tool {
	t.Helper()
	made, err := Func(Spec{Name: "t"}, f)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// nothing is a function that does nothing, for its types.
func nothing[In, Out any](context.Context, In) (Result[Out], error) { return nil, nil }

// input returns the input schema of In, and output the output schema of Out.
func input[In any](t testing.TB) string { return string(make1(t, nothing[In, int]).Spec().Input) }

func output[Out any](t testing.TB) string {
	return string(make1(t, nothing[struct{}, Out]).Spec().Output)
}

// inputError returns the error of making a tool of In.
func inputError[In any](t testing.TB) string {
	t.Helper()
	_, err := Func(Spec{Name: "t"}, nothing[In, int])
	if err == nil {
		t.Fatal("a tool was made")
	}
	return err.Error()
}

// given runs a tool of In on arguments, without a registry, and returns what
// its function was given.
func given[In any](t testing.TB, args string) (in In, err error) {
	t.Helper()
	entered := false
	_, err = make1(t, func(_ context.Context, got In) (Result[bool], error) {
		in, entered = got, true
		return Done(true), nil
	}).Execute(t.Context(), call(args))
	if (err == nil) != entered {
		t.Fatalf("entered: %v, error: %v", entered, err)
	}
	return in, err
}

// result runs a function of no arguments and returns the tool's output.
func result[Out any](t testing.TB, r Result[Out], err error) (Execution, error) {
	t.Helper()
	return make1(t, func(context.Context, struct{}) (Result[Out], error) {
		return r, err
	}).Execute(t.Context(), call("{}"))
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

type inner struct {
	X int `json:"x"`
}

type hidden struct{ H int }

type myDate struct{ time.Time }
