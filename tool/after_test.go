package tool

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/llm"
)

// TestWhatGoesWrongAfterTheBodySaysThatItRan: in the words of its effect. The
// body's own error stays as it is.
func TestWhatGoesWrongAfterTheBodySaysThatItRan(t *testing.T) {
	const stands, again = "Its effects stand. Do not call it again", "It may be called again."
	for effect, want := range map[Effect]string{Once: stands, Idempotent: again, ReadOnly: again} {
		spec := Spec{Name: "a", Effect: effect, Output: raw(`{"type":"string"}`)}
		for name, tl := range map[string]Tool{
			"a result that is too large": returns(spec,
				Execution{Output: raw(`"` + strings.Repeat("x", 1<<20) + `"`)}, nil),
			"one that does not fit":           returns(spec, Execution{Output: raw("1")}, nil),
			"a pause that it may not ask for": returns(spec, Execution{Await: &Await{}}, nil),
			"a side product that is none": returns(spec,
				Execution{Output: raw(`""`), Actions: []Action{{}}}, nil),
			"no result": Must(Func(Spec{Name: "a", Effect: effect},
				func(context.Context, struct{}) (Result[string], error) { return nil, nil })),
			"a result without a JSON form": Must(Func(Spec{Name: "a", Effect: effect},
				func(context.Context, struct{}) (Result[any], error) {
					return Done(any(func() {})), nil
				})),
		} {
			_, err := enter(t, tl)
			var after *afterError
			if !errors.As(err, &after) ||
				!strings.HasPrefix(err.Error(),
					"a ran, but what came of it could not be taken: ") ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("%q, %s: %v", effect, name, err)
			}
		}
		_, err := enter(t, returns(spec, Execution{}, errors.New("no such order")))
		if err == nil || err.Error() != "no such order" {
			t.Errorf("%q: the body's own error became %v", effect, err)
		}
	}
}

func TestARefusalAfterTheBodyIsNone(t *testing.T) {
	err := after("a", Once, fmt.Errorf("wrapped: %w", Denied("it names a customer")))
	if IsDenied(err) || strings.Contains(err.Error(), "not run") ||
		!strings.Contains(err.Error(), "refused afterwards: it names a customer.") {
		t.Error(err)
	}
	if again := after("b", Idempotent, err); again != err {
		t.Errorf("it was worded twice: %v", again)
	}
	if !IsFatal(after("a", Once, Fatal(errors.New("disk full")))) {
		t.Error("a fatal error lost its meaning")
	}
}

// TestSideProductsThatAreTooLargeAreLeftOut: the output is kept, and so are the
// side products that there is room for.
func TestSideProductsThatAreTooLargeAreLeftOut(t *testing.T) {
	small, big := []byte("small"), make([]byte, 1<<20)
	exec, err := enter(t, returns(Spec{Name: "a"}, Execution{Output: raw("1"), Actions: []Action{
		{Artifact: &Artifact{Name: "log", Data: small}},
		{Media: &llm.Media{Name: "chart", MediaType: "image/png", Data: big}},
		{Artifact: &Artifact{Name: "dump", Data: big}},
		{Artifact: &Artifact{Name: "core", Data: big}},
		{Media: &llm.Media{Name: "icon", MediaType: "image/png", Data: small}},
	}}, nil))
	if err != nil || string(exec.Output) != "1" {
		t.Fatal(string(exec.Output), err)
	}
	if len(exec.Actions) != 4 || exec.Actions[0].Artifact.Name != "log" ||
		exec.Actions[1].Media.Name != "icon" {
		t.Fatalf("kept are %+v", exec.Actions)
	}
	contains(t, string(exec.Actions[2].Artifact.Data),
		`"dump" and 1 more were left out: 2097160 bytes, and at most 1048576`)
	contains(t, string(exec.Actions[3].Media.Data),
		`"chart" was left out: 1048590 bytes, and at most 1048576`)
}

// TestTheNoteOnWhatWasLeftOutStays: layers hand on what Enter returned, and it
// is bounded again behind them. More notes than there can be count as anything
// does.
func TestTheNoteOnWhatWasLeftOutStays(t *testing.T) {
	const limit = 4 << 10
	full := make([]byte, limit-len("full"))
	tl := returns(Spec{Name: "a"}, Execution{Output: raw("1"), Actions: []Action{
		{Artifact: &Artifact{Name: "full", Data: full}},
		{Artifact: &Artifact{Name: strings.Repeat("\x01", 1000), Data: full}},
		{Media: &llm.Media{Name: "chart", MediaType: "image/png", Data: full}},
	}}, nil)
	r, err := limited(Limits{Result: limit}, tl)
	if err != nil {
		t.Fatal(err)
	}
	p, err := r.Prepare(Call{Tool: "a"})
	if err != nil {
		t.Fatal(err)
	}
	exec, err := p.Enter(t.Context(), p.Call)
	if err != nil {
		t.Fatal(err)
	}
	for _, layered := range []Execution{exec, exec.Clone()} {
		again, err := p.Bounds(layered)
		if err != nil || !reflect.DeepEqual(again, exec) {
			t.Errorf("it became %+v, %v", again.Actions, err)
		}
	}
	exec.Actions = append(exec.Actions, exec.Actions[2])
	again, err := p.Bounds(exec)
	if err != nil || len(again.Actions) != 4 ||
		again.Actions[3].Media.Name == exec.Actions[2].Media.Name {
		t.Fatal("a second note counts nothing, too", again.Actions, err)
	}
}

// A pause that makes no sense is the author's mistake, which calling again
// doesn't mend.
func TestAMistakenPauseIsNotToBeTriedAgain(t *testing.T) {
	for effect, want := range map[Effect]string{
		Once: "Do not call it again for the same.", ReadOnly: "a mistake in the tool. Do not call it again",
	} {
		_, err := enter(t, returns(Spec{Name: "a", Effect: effect, MayPause: true},
			Execution{Await: &Await{Timeout: -1}}, nil))
		if err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "It may be called") {
			t.Errorf("%q: %v", effect, err)
		}
	}
}
