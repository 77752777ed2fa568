package workflow

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/internal/jsontree"
)

// What is refused before a workflow begins. The words are for who wrote the
// list: a programmer, or a model.

var goodStep = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)

// maxText is how long the name and the version of a list are at most, in bytes.
const maxText = 200

func goodText(s string) bool {
	return len(s) <= maxText && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// needs is what the steps of a list have to have before they begin, by their
// names.
type needs map[string]need

type need struct {
	args any      // the arguments, as a tree
	done []string // steps that it refers to
	over []string // steps that it comes after
}

// check returns what each step needs, or what is wrong with a list, without
// looking at its tools.
func (l *List) check() (needs, error) {
	switch {
	case l.Name == "":
		return nil, fmt.Errorf("it has no name")
	case !goodText(l.Name) || !goodText(l.Version):
		return nil, fmt.Errorf("its name %q, or its version %q, has more than %d bytes, or a control "+
			"character", excerpt.Of(l.Name), excerpt.Of(l.Version), maxText)
	case len(l.Steps) == 0:
		return nil, fmt.Errorf("it has no steps")
	case len(l.Steps) > MaxSteps:
		return nil, fmt.Errorf("it has %d steps, at most %d are taken", len(l.Steps), MaxSteps)
	}
	all := needs{}
	for i := range l.Steps {
		s := &l.Steps[i]
		if !goodStep.MatchString(s.Name) {
			return nil, fmt.Errorf("the step at %d: its name %q is not 1 to 40 letters, digits, '_' or '-'",
				i, excerpt.Of(s.Name))
		}
		if _, twice := all[s.Name]; twice {
			return nil, fmt.Errorf("two steps are named %q", s.Name)
		}
		n, err := l.checkStep(s)
		if err != nil {
			return nil, fmt.Errorf("step %q: %w", s.Name, err)
		}
		all[s.Name] = n
	}
	if err := l.checkBack(all); err != nil {
		return nil, err
	}
	if len(l.Output) > 0 {
		out, err := tree(l.Output)
		if err == nil {
			_, err = l.refers(out, "")
		}
		if err != nil {
			return nil, fmt.Errorf("output: %w", err)
		}
	}
	return all, all.checkCycles(l)
}

func (l *List) checkStep(s *Step) (n need, err error) {
	if n.args, err = tree(s.Arguments); err != nil {
		return n, fmt.Errorf("its arguments are not JSON: %w", err)
	}
	if _, ok := n.args.(*jsontree.Object); !ok {
		return n, fmt.Errorf("its arguments are not an object")
	}
	if _, is := reference(n.args); is {
		return n, fmt.Errorf("its arguments are a reference; they are an object, whose members may " +
			"be references")
	}
	if n.done, err = l.refers(n.args, s.Name); err != nil {
		return n, err
	}
	for _, name := range s.After {
		switch {
		case l.step(name) == nil:
			return n, fmt.Errorf("it comes after %q, and no step has that name", excerpt.Of(name))
		case name == s.Name:
			return n, fmt.Errorf("it comes after itself")
		}
		n.over = append(n.over, name)
	}
	switch s.OnFailure {
	case EndOnFailure, ContinueOnFailure:
	default:
		return n, fmt.Errorf("onFailure is %q; it is %q, or left out", excerpt.Of(string(s.OnFailure)),
			ContinueOnFailure)
	}
	return n, s.Retry.check()
}

// check returns what is wrong with how often a step is begun again.
func (r *Retry) check() error {
	if r == nil {
		return nil
	}
	if r.Times < 1 || r.Times > MaxRetries {
		return fmt.Errorf("retry: times is %d; 1 to %d are taken", r.Times, MaxRetries)
	}
	if err := checkDelay("delayMs", r.DelayMs); err != nil {
		return err
	}
	return checkDelay("mostMs", r.MostMs)
}

func checkDelay(name string, ms int) error {
	if most := MaxDelay.Milliseconds(); ms < 0 || int64(ms) > most {
		return fmt.Errorf("retry: %s is %d; 0 to %d are taken, which is a year", name, ms, most)
	}
	return nil
}

// refers returns the steps that a value refers to. Own is the step that it
// belongs to.
func (l *List) refers(v any, own string) (steps []string, err error) {
	for _, pointer := range references(v) {
		name, _, err := stepOf(pointer)
		switch {
		case err != nil:
			return nil, err
		case name == "": // the input
		case l.step(name) == nil:
			return nil, fmt.Errorf("it refers to %q, and no step is named %q", pointer,
				excerpt.Of(name))
		case name == own:
			return nil, fmt.Errorf("it refers to its own output, by %q", pointer)
		case !slices.Contains(steps, name):
			steps = append(steps, name)
		}
	}
	return steps, nil
}

// checkBack checks the steps that take others back. Those are not begun unless
// the workflow fails, so no other step may need them.
func (l *List) checkBack(all needs) error {
	by := map[string]string{}
	for i := range l.Steps {
		s := &l.Steps[i]
		if s.Compensate == "" {
			continue
		}
		back := l.step(s.Compensate)
		switch {
		case back == nil:
			return fmt.Errorf("step %q: it is taken back by %q, and no step has that name", s.Name,
				excerpt.Of(s.Compensate))
		case back == s || back.Compensate != "":
			return fmt.Errorf("step %q: it is taken back by %q, which is itself taken back", s.Name,
				s.Compensate)
		case by[back.Name] != "":
			return fmt.Errorf("the steps %q and %q are both taken back by %q; each needs one of its own",
				by[back.Name], s.Name, back.Name)
		}
		by[back.Name] = s.Name
	}
	for i := range l.Steps {
		s := &l.Steps[i]
		n := all[s.Name]
		for _, name := range slices.Concat(n.done, n.over) {
			if by[name] != "" {
				return fmt.Errorf("step %q: it needs %q, which only takes %q back", s.Name, name, by[name])
			}
		}
	}
	if len(l.Output) > 0 {
		out, err := tree(l.Output)
		if err != nil {
			return fmt.Errorf("output: %w", err)
		}
		for _, pointer := range references(out) {
			if name, _, _ := stepOf(pointer); by[name] != "" {
				return fmt.Errorf("output: it refers to %q, which only takes %q back", name, by[name])
			}
		}
	}
	return nil
}

// checkCycles returns the error of steps that wait for each other.
func (n needs) checkCycles(l *List) error {
	const entered, left = 1, 2
	state := map[string]int{}
	var path []string
	var visit func(name string) error
	visit = func(name string) error {
		switch state[name] {
		case left:
			return nil
		case entered:
			from := slices.Index(path, name)
			return fmt.Errorf("the steps wait for each other: %s",
				strings.Join(append(slices.Clone(path[from:]), name), ", which needs "))
		}
		state[name] = entered
		path = append(path, name)
		for _, of := range slices.Concat(n[name].done, n[name].over) {
			if err := visit(of); err != nil {
				return err
			}
		}
		path = path[:len(path)-1]
		state[name] = left
		return nil
	}
	for i := range l.Steps {
		if err := visit(l.Steps[i].Name); err != nil {
			return err
		}
	}
	return nil
}
