// See cron_policy.h.
#include "schedules/cron_policy.h"

#include <algorithm>
#include <cstddef>

namespace jobq::core {

namespace {

constexpr int kSecondsOfHour = 3600;
constexpr int kSecondsOfDay = 86400;

constexpr std::string_view kMonths[] = {"jan", "feb", "mar", "apr", "may", "jun",
                                        "jul", "aug", "sep", "oct", "nov", "dec"};
constexpr std::string_view kWeekdays[] = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};

struct FieldKind {
    CronField field;
    const char *name;
    int lowest, highest;            // range of the numbers
    const std::string_view *names;  // names of the values from first_name on; nullptr if the field has no names
    int name_count, first_name;
    const char *not_a_value;
};
constexpr FieldKind kFields[] = {
    {CronField::Second, "second", 0, 59, nullptr, 0, 0, "The value must be from 0 to 59."},
    {CronField::Minute, "minute", 0, 59, nullptr, 0, 0, "The value must be from 0 to 59."},
    {CronField::Hour, "hour", 0, 23, nullptr, 0, 0, "The value must be from 0 to 23."},
    {CronField::DayOfMonth, "day of month", 1, 31, nullptr, 0, 0, "The value must be from 1 to 31, or L."},
    {CronField::Month, "month", 1, 12, kMonths, 12, 1, "The value must be from 1 to 12 or from jan to dec."},
    {CronField::Weekday, "weekday", 0, 7, kWeekdays, 7, 0, "The value must be from 0 to 7 or from sun to sat."},
};
constexpr int kFieldCount = 6;

struct Nickname {
    std::string_view name;
    std::string_view expression;
};
constexpr Nickname kNicknames[] = {
    {"@yearly", "0 0 1 1 *"}, {"@annually", "0 0 1 1 *"}, {"@monthly", "0 0 1 * *"}, {"@weekly", "0 0 * * 0"},
    {"@daily", "0 0 * * *"},  {"@midnight", "0 0 * * *"}, {"@hourly", "0 * * * *"},
};
constexpr std::string_view kEvery = "@every";

bool is_blank(char c) { return c == ' ' || c == '\t'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_word(std::string_view a, std::string_view b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); i++)
        if (lower(a[i]) != b[i]) return false;
    return true;
}

std::uint64_t bit(int n) { return std::uint64_t{1} << n; }

// Reads the text of an expression from left to right.
struct Reader {
    std::string_view text;
    std::size_t at;
    CronField field;
    CronError *error;

    bool ends() const { return at >= text.size() || is_blank(text[at]); }
    char next() const { return at < text.size() ? text[at] : '\0'; }
    bool take(char c) {
        if (next() != c) return false;
        at++;
        return true;
    }
    void skip_blanks() {
        while (at < text.size() && is_blank(text[at])) at++;
    }
    bool fail(const char *problem, std::size_t where) {
        *error = {field, static_cast<int>(where) + 1, problem};
        return false;
    }
    bool fail(const char *problem) { return fail(problem, at); }
};

// Reads a number of up to nine digits.
bool read_number(Reader *reader, std::int64_t *value) {
    const std::size_t begin = reader->at;
    *value = 0;
    while (is_digit(reader->next()) && reader->at - begin < 9)
        *value = *value * 10 + (reader->text[reader->at++] - '0');
    return reader->at > begin && !is_digit(reader->next());
}

bool read_value(Reader *reader, const FieldKind &kind, int *value) {
    const std::size_t begin = reader->at;
    std::int64_t number;
    if (is_digit(reader->next())) {
        if (!read_number(reader, &number) || number < kind.lowest || number > kind.highest)
            return reader->fail(kind.not_a_value, begin);
        *value = static_cast<int>(number);
        return true;
    }
    const std::string_view word = reader->text.substr(begin, 3);
    for (int i = 0; i < kind.name_count; i++) {
        if (!same_word(word, kind.names[i])) continue;
        reader->at += 3;
        *value = kind.first_name + i;
        return true;
    }
    return reader->fail(kind.not_a_value, begin);
}

// Reads one element of a list: *, a value, or a range, each with an optional step.
bool read_element(Reader *reader, const FieldKind &kind, std::uint64_t *set, bool *regular) {
    const std::size_t begin = reader->at;
    int first = kind.lowest, last = kind.highest;
    bool many = true;
    if (reader->take('*')) {
        // * excludes the weekday 7, because both 0 and 7 mean Sunday.
        if (kind.field == CronField::Weekday) last = 6;
        *regular = true;
    } else if (kind.field == CronField::DayOfMonth && (reader->take('L') || reader->take('l'))) {
        *set |= bit(0);
        return true;
    } else {
        if (!read_value(reader, kind, &first)) return false;
        many = reader->take('-');
        if (many) {
            const std::size_t second = reader->at;
            *regular = true;
            if (!read_value(reader, kind, &last)) return false;
            if (kind.field == CronField::Weekday && last == 0 && first > 0) last = 7;
            if (last < first) return reader->fail("The range ends before it begins.", second);
        }
    }
    std::int64_t step = 1;
    if (reader->take('/')) {
        const std::size_t where = reader->at;
        *regular = true;
        if (!read_number(reader, &step) || step < 1 || step > kind.highest)
            return reader->fail("The step must be at least 1 and must not exceed the range.", where);
        // A step after a single value, such as 5/10, means "every 10 from 5 on", so the range extends to the end.
        if (!many && kind.field == CronField::Weekday) last = std::max(first, 6);
    } else if (!many) {
        last = first;
    }
    if (reader->at == begin) return reader->fail(kind.not_a_value);
    for (int value = first; value <= last; value += static_cast<int>(step)) *set |= bit(value);
    return true;
}

bool read_field(Reader *reader, const FieldKind &kind, std::uint64_t *set, bool *regular) {
    reader->field = kind.field;
    *set = 0;
    do {
        if (!read_element(reader, kind, set, regular)) return false;
    } while (reader->take(','));
    if (!reader->ends()) return reader->fail("The character is not allowed.");
    return true;
}

int count_fields(std::string_view text) {
    int count = 0;
    for (std::size_t i = 0; i < text.size(); i++)
        if (!is_blank(text[i]) && (i == 0 || is_blank(text[i - 1]))) count++;
    return count;
}

// Returns whether the expression ever fires. If a day must match both the day of the month and the weekday, at least
// one of the months must contain at least one of the days of the month. Weekdays need no check, because every day of
// the year falls on every weekday within 400 years.
bool ever_fires(const Cron &cron) {
    if (!cron.needs_both_days) return true;
    for (int month = 1; month <= 12; month++) {
        if ((cron.months & bit(month)) == 0) continue;
        const int days = days_in_month(2000, month);
        if ((cron.days & (bit(days + 1) - 1)) != 0) return true;
    }
    return false;
}

bool read_fields(Reader *reader, Cron *cron) {
    const int count = count_fields(reader->text);
    if (count != kFieldCount && count != kFieldCount - 1)
        return reader->fail("The expression must have five or six fields.", 0);
    std::uint64_t sets[kFieldCount] = {bit(0)};
    bool any_day = false;
    for (int i = kFieldCount - count; i < kFieldCount; i++) {
        bool regular = false;
        reader->skip_blanks();
        const FieldKind &kind = kFields[i];
        const bool starred = reader->next() == '*';
        if (!read_field(reader, kind, &sets[i], &regular)) return false;
        if (kind.field == CronField::DayOfMonth || kind.field == CronField::Weekday)
            any_day |= starred;
        else if (kind.field != CronField::Month)
            cron->follows_clock |= regular;
    }
    cron->seconds = sets[0];
    cron->minutes = sets[1];
    cron->hours = static_cast<std::uint32_t>(sets[2]);
    cron->days = static_cast<std::uint32_t>(sets[3]);
    cron->months = static_cast<std::uint32_t>(sets[4]);
    cron->weekdays = static_cast<std::uint32_t>((sets[5] | sets[5] >> 7) & 0x7f);
    cron->needs_both_days = any_day;
    reader->field = CronField::Expression;
    return ever_fires(*cron) || reader->fail("The day never occurs.", 0);
}

// Reads a span such as 90s, 1h30m, or 1d. The units may come in any order; the span must be at least one second.
bool read_every(Reader *reader, Cron *cron) {
    constexpr Micros longest = 366 * kDay;
    constexpr std::string_view unit_names = "smhd";
    constexpr Micros units[] = {kSecond, kMinute, kHour, kDay};
    reader->skip_blanks();
    const std::size_t begin = reader->at;
    Micros every = 0;
    while (!reader->ends()) {
        std::int64_t number;
        if (!read_number(reader, &number)) return reader->fail("A time span such as 90s or 1h30m is missing.");
        const std::size_t which = unit_names.find(lower(reader->next()));
        if (which == std::string_view::npos) return reader->fail("The unit must be s, m, h, or d.");
        const Micros unit = units[which];
        reader->at++;
        if (number > longest / unit) return reader->fail("The time span must be at most 366 days.", begin);
        every += number * unit;
    }
    reader->skip_blanks();
    if (reader->at < reader->text.size()) return reader->fail("Nothing can follow the time span.");
    if (every < kSecond) return reader->fail("The time span must be at least one second.", begin);
    if (every > longest) return reader->fail("The time span must be at most 366 days.", begin);
    cron->every = every;
    return true;
}

}  // namespace

const char *field_name(CronField field) noexcept {
    for (const FieldKind &kind : kFields)
        if (kind.field == field) return kind.name;
    return "expression";
}

bool parse_cron(std::string_view text, Cron *cron, CronError *error) noexcept {
    *cron = {};
    Reader reader = {text, 0, CronField::Expression, error};
    if (text.size() > kMaxCronBytes) return reader.fail("The expression must have at most 1000 bytes.");
    reader.skip_blanks();
    if (reader.next() != '@') return read_fields(&reader, cron);

    const std::size_t begin = reader.at;
    while (!reader.ends()) reader.at++;
    const std::string_view word = text.substr(begin, reader.at - begin);
    if (same_word(word, kEvery)) return read_every(&reader, cron);
    for (const Nickname &nickname : kNicknames) {
        if (!same_word(word, nickname.name)) continue;
        reader.skip_blanks();
        if (reader.at < text.size()) return reader.fail("Nothing can follow the shorthand.");
        Reader full = {nickname.expression, 0, CronField::Expression, error};
        return read_fields(&full, cron);
    }
    return reader.fail("The shorthand must be @yearly, @monthly, @weekly, @daily, @hourly, or @every.", begin);
}

int days_in_month(std::int64_t year, int month) noexcept {
    constexpr std::int8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return month == 2 && leap ? 29 : days[month - 1];
}

// Converts the number of a day to its date, like civil_from_days in Howard Hinnant's "chrono-Compatible Low-Level Date
// Algorithms".
Day day_of(std::int64_t number) noexcept {
    const std::int64_t shifted = number + 719468;  // days since 0000-03-01
    const std::int64_t era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
    const std::int64_t of_era = shifted - era * 146097;
    const std::int64_t year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    const std::int64_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    const std::int64_t shifted_month = (5 * of_year + 2) / 153;
    Day day = {};
    day.number = number;
    day.day = static_cast<int>(of_year - (153 * shifted_month + 2) / 5 + 1);
    day.month = static_cast<int>(shifted_month < 10 ? shifted_month + 3 : shifted_month - 9);
    day.year = static_cast<int>(year_of_era + era * 400 + (day.month <= 2 ? 1 : 0));
    day.weekday = static_cast<int>(((number % 7) + 11) % 7);  // 1970-01-01 was a Thursday
    return day;
}

bool has_day(const Cron &cron, const Day &day) noexcept {
    if ((cron.months & bit(day.month)) == 0) return false;
    const bool last = (cron.days & 1) != 0 && day.day == days_in_month(day.year, day.month);
    const bool of_month = last || (cron.days & bit(day.day)) != 0;
    const bool of_week = (cron.weekdays & bit(day.weekday)) != 0;
    return cron.needs_both_days ? of_month && of_week : (of_month || of_week);
}

int next_second_of_day(const Cron &cron, int from) noexcept {
    // Returns the lowest value of the set that is at least `least`, or -1.
    const auto at_least = [](std::uint64_t set, int least) {
        for (int value = least; value < 60; value++)
            if ((set & bit(value)) != 0) return value;
        return -1;
    };
    if (from >= kSecondsOfDay) return -1;
    for (int hour = at_least(cron.hours, from / kSecondsOfHour); hour >= 0; hour = at_least(cron.hours, hour + 1)) {
        const bool same_hour = hour == from / kSecondsOfHour;
        const int from_minute = same_hour ? from / 60 % 60 : 0;
        for (int minute = at_least(cron.minutes, from_minute); minute >= 0;
             minute = at_least(cron.minutes, minute + 1)) {
            const int second = at_least(cron.seconds, same_hour && minute == from_minute ? from % 60 : 0);
            if (second >= 0) return hour * kSecondsOfHour + minute * 60 + second;
        }
    }
    return -1;
}

}  // namespace jobq::core
