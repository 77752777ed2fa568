package terminal

import (
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"

	"github.com/fermata-ai/fermata/tool/handle"
)

// screen is the emulator: it draws what a program writes, and writes what a
// program is told, keys and answers to what programs ask of a terminal. Its
// methods are called under a lock, but for close, which comes last.
type screen struct {
	rows, columns int
	out           *outbox
	emulator      *vt.Emulator
	answered      chan struct{} // closed when nothing more of this emulator goes to out
}

func newScreen(rows, columns int, out *outbox) *screen {
	s := &screen{rows: rows, columns: columns, out: out}
	s.renew()
	return s
}

// renew begins with an empty screen.
func (s *screen) renew() {
	s.emulator = vt.NewEmulator(s.columns, s.rows)
	s.emulator.SetScrollbackSize(1) // which isn't shown
	for _, command := range counted {
		s.emulator.RegisterCsiHandler(int(command), bound)
	}
	s.answered = make(chan struct{})
	go func(from io.Reader, answered chan<- struct{}) {
		defer close(answered)
		_, _ = io.Copy(s.out, from)
	}(s.emulator, s.answered)
}

// counted are the control sequences (ECMA-48) that do something as often as
// their parameter tells: the emulator would work for a minute at the whim of a
// program that writes ten bytes.
const counted = "@ABCDEFGHILMPSTXZ`abde"

// bound bounds the parameters of a control sequence, and leaves it to the
// emulator's own handler. No screen has more rows or columns.
func bound(params ansi.Params) bool {
	const most = 1000
	for i, p := range params {
		if n := p.Param(0); n < 0 || n > most {
			params[i] = most
		}
	}
	return false
}

// close ends the emulator's goroutine. The emulator's own Close may not be
// called while it is read.
func (s *screen) close() {
	if pipe, ok := s.emulator.InputPipe().(io.Closer); ok {
		_ = pipe.Close()
		<-s.answered
	}
}

// draw draws what a program wrote. A program must not be able to end this one:
// where the emulator panics, the screen begins anew.
func (s *screen) draw(b []byte) {
	defer func() {
		if recover() != nil {
			s.close()
			s.renew()
		}
	}()
	_, _ = s.emulator.Write(b)
}

// show returns the screen as text.
func (s *screen) show() (string, handle.Screen) {
	var lines []string
	for y := range s.rows {
		var line strings.Builder
		for x := range s.columns {
			cell := s.emulator.CellAt(x, y)
			switch {
			case cell == nil || cell.Content == "" && cell.Width > 0:
				line.WriteByte(' ')
			default: // the second half of a wide character has neither
				line.WriteString(cell.Content)
			}
		}
		lines = append(lines, strings.TrimRight(line.String(), " "))
	}
	text := strings.TrimRight(strings.Join(lines, "\n"), "\n")
	at := s.emulator.CursorPosition()
	return strings.ToValidUTF8(text, "\ufffd"), handle.Screen{Rows: s.rows, Columns: s.columns,
		Row: at.Y + 1, Column: at.X + 1}
}

// codes are the emulator's codes of keys that have a name.
var codes = map[string]rune{
	"enter": vt.KeyEnter, "tab": vt.KeyTab, "escape": vt.KeyEscape,
	"backspace": vt.KeyBackspace, "space": vt.KeySpace,
	"insert": vt.KeyInsert, "delete": vt.KeyDelete, "up": vt.KeyUp, "down": vt.KeyDown,
	"left": vt.KeyLeft, "right": vt.KeyRight, "home": vt.KeyHome, "end": vt.KeyEnd,
	"pageup": vt.KeyPgUp, "pagedown": vt.KeyPgDown,
	"f1": vt.KeyF1, "f2": vt.KeyF2, "f3": vt.KeyF3, "f4": vt.KeyF4, "f5": vt.KeyF5,
	"f6": vt.KeyF6, "f7": vt.KeyF7, "f8": vt.KeyF8, "f9": vt.KeyF9, "f10": vt.KeyF10,
	"f11": vt.KeyF11, "f12": vt.KeyF12,
}

// longest is how many bytes a key comes to at most.
const longest = 16

// enters are what makes a newline in a text.
var enters = strings.NewReplacer("\r\n", "\r", "\n", "\r")

// press writes keys to the program, all or none.
func (s *screen) press(keys []handle.Key) error {
	size := 0
	for _, k := range keys {
		size += longest + len(k.Text)
	}
	if err := s.out.room(size); err != nil {
		return err
	}
	for _, k := range keys {
		if k.Name == "" {
			s.emulator.SendText(enters.Replace(k.Text))
			continue
		}
		s.emulator.SendKey(event(k))
	}
	return nil
}

// event returns a key as the emulator takes it.
func event(k handle.Key) vt.KeyPressEvent {
	var e vt.KeyPressEvent
	e.Code = codes[k.Name]
	if e.Code == 0 {
		e.Code = []rune(k.Name)[0]
		if !k.Ctrl {
			e.Text = k.Name
		}
	}
	if k.Ctrl {
		e.Mod |= vt.ModCtrl
	}
	if k.Alt {
		e.Mod |= vt.ModAlt
	}
	if k.Shift {
		e.Mod |= vt.ModShift
	}
	return e
}
