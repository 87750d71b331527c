package jobq

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
)

// mostDetails is the maximum length of the details of an error, which the server always accepts.
const mostDetails = 16384

// textLengths are the lengths to which the texts of details are shortened until the details fit. The last length fits even if each
// character of two texts takes six bytes.
var textLengths = []int{12288, 3072, 768}

// textOf returns the text of an error for a failure report: its type and its message.
func textOf(err error) string {
	var panicked *panicError
	if errors.As(err, &panicked) {
		return panicked.Error()
	}
	return fmt.Sprintf("%T: %s", err, describe(err))
}

// stackOf returns the error and the errors that caused it, one per line, and the stack trace of a panic. Errors of Go have no stack trace.
func stackOf(err error) string {
	text := textOf(err)
	for cause := errors.Unwrap(err); cause != nil; cause = errors.Unwrap(cause) {
		text += "\ncaused by: " + textOf(cause)
	}
	var panicked *panicError
	if errors.As(err, &panicked) {
		text += "\n" + panicked.stack
	}
	return text
}

// detailsOf returns the details of an error as JSON, or nil. An error in the function of the application is logged.
func (w *Worker) detailsOf(job *Job, err error) (text *string) {
	if w.options.NoErrorDetails {
		return nil
	}
	defer w.logPanic(job, "ErrorDetails")
	details := map[string]any{"class": fmt.Sprintf("%T", err), "stack": stackOf(err)}
	if w.options.ErrorDetails != nil {
		details = w.options.ErrorDetails(details)
	}
	if details == nil {
		return nil
	}
	encoded, problem := bounded(details)
	if problem != nil {
		w.logOf(job).Error("the details of an error cannot be sent", "error", problem)
		return nil
	}
	return &encoded
}

func (w *Worker) callOnError(job *Job, err error) {
	if w.options.OnError != nil {
		defer w.logPanic(job, "OnError")
		w.options.OnError(err, job)
	}
}

// logPanic logs a panic in a function of the application.
func (w *Worker) logPanic(job *Job, name string) {
	if value := recover(); value != nil {
		w.logOf(job).Error(name+" has panicked", "error", value, "stack", string(debug.Stack()))
	}
}

// bounded returns the details as JSON of at most mostDetails bytes, with shorter texts if necessary.
func bounded(details map[string]any) (string, error) {
	for _, length := range textLengths {
		short := map[string]any{}
		for key, value := range details {
			if text, isText := value.(string); isText {
				value = shortened(clean(text), length)
			}
			short[key] = value
		}
		var text strings.Builder
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(short); err != nil {
			return "", err
		}
		if text.Len() <= mostDetails {
			return text.String(), nil
		}
	}
	return "", fmt.Errorf("the details take more than %d bytes as JSON", mostDetails)
}

// shortened returns the text, or its beginning and its end, because a stack trace names the error either at the beginning or at the end.
func shortened(text string, most int) string {
	chars := []rune(text)
	if len(chars) <= most {
		return text
	}
	half := most/2 - 20 // leaves room for the mark
	return fmt.Sprintf("%s\n... %d characters left out ...\n%s", string(chars[:half]), len(chars)-2*half, string(chars[len(chars)-half:]))
}
